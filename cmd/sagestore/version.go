package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// build is what the version command tells.
type build struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func (a *app) versionCommand() *cobra.Command {
	c := &cobra.Command{
		Use:     "version",
		Short:   "Print the version",
		Long:    `Print the version of the command, the revision it was built from, and Go's version.`,
		Example: `  sagestore version --json`,
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			b := build{Version: "unknown", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
			if info, ok := debug.ReadBuildInfo(); ok {
				b.Version = info.Main.Version
				for _, s := range info.Settings {
					if s.Key == "vcs.revision" {
						b.Revision = s.Value
					}
				}
			}
			if a.json {
				return a.printJSON(b)
			}
			_, err := fmt.Fprintf(a.out, "sagestore %s %s %s %s\n", b.Version, b.Revision, b.Go, b.Platform)
			return err
		},
	}
	c.Flags().BoolVar(&a.json, "json", false, "print JSON")
	return c
}
