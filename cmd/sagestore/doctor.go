package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/sagestore/sagestore/manager"
	"github.com/sagestore/sagestore/tiers"
)

func (a *app) doctorCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "doctor",
		Short: "Check the store and say what to do",
		Long: `Check the configuration and the running store: paths and their modes, room on the
disks, each server's version and settings, schema, clock, and what waits in the
journal. Each finding says what to do. It ends with 0 when all is well and with 1
when there are findings.`,
		Example: `  sagestore doctor
  sagestore doctor --json`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			findings, err := a.diagnose(c)
			if err != nil {
				return err
			}
			bad := 0
			for _, f := range findings {
				if !f.OK {
					bad++
				}
			}
			if a.json {
				err = a.printJSON(findings)
			} else {
				err = a.printFindings(findings)
			}
			if err == nil && bad > 0 {
				err = silent(exitFailed)
			}
			return err
		},
	}
	c.Flags().BoolVar(&a.json, "json", false, "print JSON")
	return c
}

func (a *app) diagnose(c *cobra.Command) (findings []tiers.Finding, err error) {
	e, file, err := a.effective()
	if err != nil {
		return nil, err
	}
	if file == "" {
		file = "built in; sagestore init writes one to change"
	}
	findings = append(findings, tiers.Finding{OK: true, Subject: "configuration", Message: file})
	for _, w := range e.Warnings() {
		findings = append(findings, tiers.Finding{Subject: "configuration", Message: w.String(), Hint: "see docs/CONFIG.md"})
	}
	err = a.with(c.Context(), func(m *manager.Manager) error {
		findings = append(findings, m.Diagnose(c.Context())...)
		return nil
	})
	if err != nil { // that it does not open is the finding
		f := tiers.Finding{Subject: "open", Message: err.Error(), Hint: "mend this first, then run doctor again"}
		var typed *tiers.Error
		if errors.As(err, &typed) && typed.Hint != "" {
			f.Hint = typed.Hint
		}
		findings = append(findings, f)
	}
	return findings, nil
}

func (a *app) printFindings(findings []tiers.Finding) error {
	for _, f := range findings {
		mark := "ok  "
		if !f.OK {
			mark = "look"
		}
		if _, err := fmt.Fprintf(a.out, "%s  %s: %s\n", mark, f.Subject, f.Message); err != nil {
			return err
		}
		if f.Hint != "" {
			if _, err := fmt.Fprintf(a.out, "      %s\n", f.Hint); err != nil {
				return err
			}
		}
	}
	return nil
}
