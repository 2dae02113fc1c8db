package main

import (
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/spf13/cobra"
)

// initial is the file that init writes.
//
//go:embed initial.yaml
var initial []byte

func (a *app) initCommand() *cobra.Command {
	var force bool
	c := &cobra.Command{
		Use:   "init",
		Short: "Write a configuration to start from",
		Long: `Write ./sagestore.yaml, with its data below ./.sage. A file that is there already
is kept, unless --force is given.`,
		Example: `  sagestore init
  sagestore config show`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			const path = "sagestore.yaml"
			how := os.O_WRONLY | os.O_CREATE | os.O_EXCL
			if force {
				how = os.O_WRONLY | os.O_CREATE | os.O_TRUNC
			}
			f, err := os.OpenFile(path, how, 0o600)
			if errors.Is(err, fs.ErrExist) {
				return usagef("add --force to replace it", "%s is there already", path)
			}
			if err != nil {
				return err
			}
			_, err = f.Write(initial)
			if err := errors.Join(err, f.Close()); err != nil {
				return err
			}
			_, err = fmt.Fprintf(a.err, "wrote %s; its data will be below ./.sage\n", path)
			return err
		},
	}
	c.Flags().BoolVar(&force, "force", false, "replace the file that is there")
	return c
}
