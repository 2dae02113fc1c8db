package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/sagestore/sagestore/config"
)

func (a *app) configCommand() *cobra.Command {
	return group("config", "Check and show the configuration",
		`Check the configuration, show what it comes to, or print its JSON Schema.`,
		a.configCheckCommand(), a.configShowCommand(), a.configSchemaCommand())
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
		Args: count(0, 0),
		RunE: func(*cobra.Command, []string) error {
			return a.configCheck()
		},
	}
	c.Flags().BoolVar(&a.json, "json", false, "print JSON")
	return c
}

// verdict is the JSON shape of config check.
type verdict struct {
	File     string           `json:"file"` // "" for the built-in configuration
	OK       bool             `json:"ok"`
	Errors   []problem        `json:"errors"`
	Warnings []config.Warning `json:"warnings"`
}

type problem struct {
	File    string `json:"file,omitempty"`
	Line    int    `json:"line,omitempty"`
	Column  int    `json:"column,omitempty"`
	Path    string `json:"path,omitempty"`
	Message string `json:"message"`
}

func (a *app) configCheck() error {
	a.strict = true
	e, file, err := a.effective()
	if a.json {
		return errors.Join(a.printJSON(verdictOf(e, file, err)), quietly(err))
	}
	if err != nil {
		return err
	}
	for _, w := range e.Warnings() {
		_, _ = fmt.Fprintln(a.err, "warning:", w)
	}
	if file == "" {
		file = "the built-in configuration"
	}
	_, err = fmt.Fprintf(a.out, "%s: ok\n", file)
	return err
}

// quietly keeps of an error only its exit code.
func quietly(err error) error {
	if err == nil {
		return nil
	}
	return silent(exitCode(err))
}

func verdictOf(e *config.Effective, file string, err error) verdict {
	v := verdict{File: file, OK: err == nil, Errors: []problem{}, Warnings: []config.Warning{}}
	var faults config.Errors
	switch {
	case err == nil:
		v.Warnings = append(v.Warnings, e.Warnings()...)
	case errors.As(err, &faults):
		for _, f := range faults {
			v.Errors = append(v.Errors, problem{f.File, f.Line, f.Column, f.Path, f.Problem})
		}
	default:
		for _, f := range explain(err) {
			v.Errors = append(v.Errors, problem{File: file, Message: f.text})
		}
	}
	return v
}

func (a *app) configShowCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "show",
		Short: "Show every setting and where it comes from",
		Long: `Show the effective configuration: every setting, its value, and where it comes
from, such as file and line. Secrets are hidden.`,
		Example: `  sagestore config show
  sagestore config show --json`,
		Args: count(0, 0),
		RunE: func(*cobra.Command, []string) error {
			e, _, err := a.effective()
			if err != nil {
				return err
			}
			settings := e.Settings()
			if a.json {
				return a.printJSON(settings)
			}
			return a.printSettings(settings)
		},
	}
	c.Flags().BoolVar(&a.json, "json", false, "print JSON")
	return c
}

func (a *app) printSettings(settings []config.Setting) error {
	t := table{whole: true, columns: []column{
		{title: "SETTING", shrink: true, least: 24}, {title: "VALUE", shrink: true, least: 12}, {title: "SOURCE", shrink: true, least: 16, spare: 1},
	}}
	for _, s := range settings {
		value := s.Value
		if s.Note != "" {
			value += " (" + s.Note + ")"
		}
		t.add(s.Path, value, s.Source)
	}
	return a.printTable(t)
}

func (a *app) configSchemaCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON Schema of the configuration",
		Long:  `Print the JSON Schema of the configuration, with which editors complete and check it.`,
		Example: `  sagestore config schema > sagestore.schema.json
  # and in the first line of the YAML file:
  # yaml-language-server: $schema=sagestore.schema.json`,
		Args: count(0, 0),
		RunE: func(*cobra.Command, []string) error {
			_, err := a.out.Write(config.Schema())
			return err
		},
	}
	c.Flags().BoolVar(&a.json, "json", false, "print JSON; a schema is JSON in any case")
	return c
}
