package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sagestore/sagestore/manager"
	"github.com/sagestore/sagestore/tiers"
)

func (a *app) doctorCommand() *cobra.Command {
	var epoch, yes, deep bool
	c := &cobra.Command{
		Use:   "doctor",
		Short: "Check the store and say what to do",
		Long: `Check the configuration and the running store: paths and their modes, room on the
disks, each server's version and settings, schema, clock, every record of the file
tier, whether some records of each encrypted category decrypt, and what waits in the
journal. Each line begins with "ok", with "note" for advice, or with "fix" for a
finding; the line after it says what to do. It ends with 0 when nothing has to be
fixed, and else with 1.

With --deep everything of agents is read as well: their records, counts, indexes and
checkpoints. It takes as long as there is much of it.

With --new-epoch it does something else: a store that was copied with its data
directory gets an epoch of its own, which nobody may have open meanwhile. Until then it
shares the entries in Redis with the store it was copied from, and each answers what
the other has saved.`,
		Example: `  sagestore doctor
  sagestore doctor --deep
  sagestore doctor --json`,
		Args: count(0, 0),
		RunE: func(c *cobra.Command, _ []string) error {
			if !deep && c.Flags().Changed("namespace") {
				return usagef("leave it out, or add --deep", "--namespace is for --deep")
			}
			if epoch && deep {
				return usagef("leave one of both out", "--new-epoch and --deep exclude each other")
			}
			if epoch {
				return a.newEpoch(c.Context(), yes)
			}
			if yes {
				return usagef("leave it out, or add --new-epoch", "--yes is for --new-epoch")
			}
			findings, err := a.diagnose(c, deep)
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
	c.Flags().BoolVar(&deep, "deep", false, "read everything of agents as well")
	c.Flags().StringVar(&a.namespace, "namespace", "", "`name` of the namespace whose agents --deep reads")
	c.Flags().BoolVar(&epoch, "new-epoch", false, "give a store that was copied an epoch of its own, in place of the check")
	c.Flags().BoolVar(&yes, "yes", false, "do not ask before --new-epoch")
	return c
}

// newEpoch gives the store a new epoch.
func (a *app) newEpoch(ctx context.Context, yes bool) error {
	cfg, _, err := a.readConfig()
	if err != nil {
		return err
	}
	e, err := cfg.Resolve(a.options()...)
	if err != nil {
		return err
	}
	what := fmt.Sprintf("give the store in %s a new epoch, so that it sees nothing any more of what Redis holds for it", e.DataDir)
	if err := a.ask(ctx, what, yes, "add --yes"); err != nil {
		return err
	}
	drivers, codecs := standIns(e, a.registry())
	epoch, err := manager.NewEpoch(ctx, cfg, drivers, codecs)
	if err != nil {
		return err
	}
	if a.json {
		return unprinted(a.printLine(map[string]string{"epoch": epoch}))
	}
	_, err = fmt.Fprintf(a.out, "the store in %s has the new epoch %s: what Redis held for it is not seen any more\n", e.DataDir, epoch)
	return unprinted(err)
}

// diagnose answers what there is to say. An error is that it was interrupted.
func (a *app) diagnose(c *cobra.Command, deep bool) (findings []tiers.Finding, err error) {
	e, file, err := a.effective()
	if err != nil {
		return unusable("configuration", err, "see docs/CONFIG.md"), nil
	}
	if file == "" {
		file = "built in; sagestore init writes one to change"
	}
	findings = append(findings, tiers.Finding{OK: true, Subject: "configuration", Message: file})
	_, gone := os.Stat(e.DataDir)
	opened := false
	err = a.with(c.Context(), func(m *manager.Manager) error {
		opened = true
		if errors.Is(gone, fs.ErrNotExist) && !e.InMemory {
			findings = append(findings, tiers.Finding{
				OK: true, Subject: "store", Message: "there was none in " + e.DataDir + ", so an empty one was made",
				Hint: "if there should be one, see data_dir and --data-dir",
			})
		}
		for _, f := range m.Diagnose(c.Context()) {
			f.Message = without(f.Message, f.Hint)
			if !f.OK && strings.HasSuffix(f.Subject, ": journal") {
				f.Hint += "; `sagestore journal list` shows them"
			}
			findings = append(findings, f)
		}
		if deep {
			findings = append(findings, a.damage(c, m)...)
		} else {
			findings = append(findings, a.unlooked(c, m)...)
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
