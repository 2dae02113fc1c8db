package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sagestore/sagestore/manager"
	"github.com/sagestore/sagestore/tiers"
)

func (a *app) doctorCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "doctor",
		Short: "Check the store and say what to do",
		Long: `Check the configuration and the running store: paths and their modes, room on the
disks, each server's version and settings, schema, clock, every record of the file
tier, and what waits in the journal. Each line begins with "ok", with "note" for
advice, or with "fix" for a finding; the line after it says what to do. It ends
with 0 when nothing has to be fixed, and else with 1.`,
		Example: `  sagestore doctor
  sagestore doctor --json`,
		Args: count(0, 0),
		RunE: func(c *cobra.Command, _ []string) error {
			findings, err := a.diagnose(c)
			if err != nil {
				return err
			}
			if a.json {
				err = a.printJSON(findings)
			} else {
				err = a.printFindings(findings)
			}
			if err == nil && slices.ContainsFunc(findings, func(f tiers.Finding) bool { return !f.OK }) {
				err = silent(exitFailed)
			}
			return err
		},
	}
	c.Flags().BoolVar(&a.json, "json", false, "print JSON")
	return c
}

// diagnose answers what there is to say. An error is that it was interrupted.
func (a *app) diagnose(c *cobra.Command) (findings []tiers.Finding, err error) {
	e, file, err := a.effective()
	if err != nil {
		return unusable("configuration", err, "see docs/CONFIG.md"), nil
	}
	if file == "" {
		file = "built in; sagestore init writes one to change"
	}
	findings = append(findings, tiers.Finding{OK: true, Subject: "configuration", Message: file})
	opened := false
	err = a.with(c.Context(), func(m *manager.Manager) error {
		opened = true
		for _, f := range m.Diagnose(c.Context()) {
			f.Message = without(f.Message, f.Hint)
			if !f.OK && strings.HasSuffix(f.Subject, ": journal") {
				f.Hint += "; `sagestore journal list` shows them"
			}
			findings = append(findings, f)
		}
		return nil
	})
	if ended := c.Context().Err(); ended != nil {
		return nil, ended
	}
	if err != nil {
		findings = append(findings, unusable("store", err, "mend this first, then run doctor again")...)
	}
	if !opened {
		for _, w := range e.Warnings() {
			findings = append(findings, tiers.Finding{OK: true, Subject: "configuration", Message: w.String(), Hint: "see docs/CONFIG.md"})
		}
	}
	return findings, nil
}

// unusable makes findings of what keeps the store from being opened.
func unusable(subject string, err error, hint string) (findings []tiers.Finding) {
	for _, f := range explain(err) {
		findings = append(findings, tiers.Finding{Subject: subject, Message: f.text, Hint: cmp.Or(f.hint, hint)})
	}
	return findings
}

func (a *app) printFindings(findings []tiers.Finding) error {
	for _, f := range findings {
		mark := "ok"
		switch {
		case !f.OK:
			mark = "fix"
		case f.Hint != "":
			mark = "note"
		}
		if _, err := fmt.Fprintf(a.out, "%-4s  %s: %s\n", mark, f.Subject, f.Message); err != nil {
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
