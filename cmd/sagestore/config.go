package main

import (
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/sagestore/sagestore/config"
)

func (a *app) configCommand() *cobra.Command {
	return group("config", "Check and show the configuration", a.configCheckCommand(), a.configShowCommand(), a.configSchemaCommand())
}

// effective reads the configuration and works out what it comes to.
func (a *app) effective() (e *config.Effective, file string, err error) {
	cfg, file, err := a.readConfig()
	if err != nil {
		return nil, file, err
	}
	e, err = cfg.Resolve(a.options()...)
	return e, file, err
}

func (a *app) configCheckCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "check",
		Short: "Check the configuration",
		Long: `Check the configuration without opening anything. All faults are reported at
once, with file, line and the nearest right name, and the command ends with 2.
Warnings do not change the exit code.`,
		Example: `  sagestore config check
  sagestore config check --config sagestore.yaml --json`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			e, file, err := a.effective()
			if err != nil {
				return err
			}
			warnings := e.Warnings()
			if a.json {
				texts := []string{}
				for _, w := range warnings {
					texts = append(texts, w.String())
				}
				return a.printJSON(struct {
					File     string   `json:"file"`
					Warnings []string `json:"warnings"`
				}{file, texts})
			}
			for _, w := range warnings {
				_, _ = fmt.Fprintln(a.err, "warning:", w)
			}
			if file == "" {
				file = "the built-in configuration"
			}
			_, err = fmt.Fprintf(a.out, "%s: ok\n", file)
			return err
		},
	}
	c.Flags().BoolVar(&a.json, "json", false, "print JSON")
	return c
}

func (a *app) configShowCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "show",
		Short: "Show every setting and where it comes from",
		Long: `Show the effective configuration: every setting, its value, and where it comes
from, such as file and line. Secrets are hidden.`,
		Example: `  sagestore config show
  sagestore config show --json`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			e, _, err := a.effective()
			if err != nil {
				return err
			}
			settings := e.Settings()
			if a.json {
				return a.printJSON(settings)
			}
			w := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
			_, _ = fmt.Fprintln(w, "SETTING\tVALUE\tSOURCE")
			for _, s := range settings {
				value := s.Value
				if s.Note != "" {
					value += " (" + s.Note + ")"
				}
				_, _ = fmt.Fprintf(w, "%s\t%s\t%s\n", s.Path, value, s.Source)
			}
			return w.Flush()
		},
	}
	c.Flags().BoolVar(&a.json, "json", false, "print JSON")
	return c
}

func (a *app) configSchemaCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON Schema of the configuration",
		Long:  `Print the JSON Schema of the configuration, with which editors complete and check it.`,
		Example: `  sagestore config schema > sagestore.schema.json
  # and in the first line of the YAML file:
  # yaml-language-server: $schema=sagestore.schema.json`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			_, err := a.out.Write(config.Schema())
			return err
		},
	}
	c.Flags().BoolVar(&a.json, "json", false, "print JSON; a schema is JSON in any case")
	return c
}
