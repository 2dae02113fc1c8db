package main

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

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
		Args:    count(0, 0),
		RunE: func(*cobra.Command, []string) error {
			b := readBuild()
			if a.json {
				return a.printJSON(b)
			}
			_, err := fmt.Fprintln(a.out, versionOf(b))
			return err
		},
	}
	c.Flags().BoolVar(&a.json, "json", false, "print JSON")
	return c
}

func readBuild() build {
	b := build{Version: "unknown", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	if info, ok := debug.ReadBuildInfo(); ok {
		b.Version = cmp.Or(info.Main.Version, b.Version)
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				b.Revision = s.Value
			}
		}
	}
	return b
}

func versionOf(b build) string {
	about := []string{b.Go, b.Platform}
	if b.Revision != "" {
		about = append([]string{b.Revision}, about...)
	}
	return fmt.Sprintf("sagestore %s (%s)", b.Version, strings.Join(about, ", "))
}
