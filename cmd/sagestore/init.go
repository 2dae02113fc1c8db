package main

import (
	"cmp"
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

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
		Long: `Write ./sagestore.yaml, or the file of --config, with its data in .sage beside it.
A file that is there already is kept, unless --force is given.`,
		Example: `  sagestore init
  sagestore config show`,
		Args: count(0, 0),
		RunE: func(*cobra.Command, []string) error {
			if a.dataDir != "" {
				return usagef("change data_dir in the file that init writes", "init takes no --data-dir: the data will be in .sage beside the file")
			}
			path := cmp.Or(a.config, "sagestore.yaml")
			how := os.O_WRONLY | os.O_CREATE | os.O_EXCL
			if force {
				how = os.O_WRONLY | os.O_CREATE | os.O_TRUNC
			}
			f, err := os.OpenFile(path, how, 0o600) //nolint:gosec // the user names the file
			if errors.Is(err, fs.ErrExist) {
				return usagef("add --force to replace it", "%s is there already", path)
			}
			if err != nil {
				return usagef("", "%w", err)
			}
			_, err = f.Write(initial)
			if err := errors.Join(err, f.Close()); err != nil {
				return err
			}
			_, err = fmt.Fprintf(a.err, "wrote %s; its data will be in %s\n", path, filepath.Join(filepath.Dir(path), ".sage"))
			return err
		},
	}
	c.Flags().BoolVar(&force, "force", false, "replace the file that is there")
	return c
}
