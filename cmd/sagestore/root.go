package main

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sagestore/sagestore/config"
	"github.com/sagestore/sagestore/manager"
	"github.com/sagestore/sagestore/tiers"
	"github.com/sagestore/sagestore/tiers/all"
)

// closePatience is how long a command tries, before it exits, to bring to a
// server what the journal holds for it.
const closePatience = time.Second

// app is one run of the command line.
type app struct {
	in  io.Reader
	out io.Writer
	err io.Writer

	config    string
	dataDir   string
	namespace string
	store     string
	json      bool
}

// run carries out the arguments and answers the exit code.
func (a *app) run(ctx context.Context, args []string) int {
	root := a.root() //nolint:contextcheck // each command takes the context that Execute gives it
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	a.report(err)
	return exitCode(err)
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "sagestore",
		Short: "Save and load the data of agent apps by category",
		Long: `sagestore saves and loads the data of agent apps by category, on the tier that
the configuration names for each: memory, cache, database or file.

The configuration is the file of --config, else $SAGESTORE_CONFIG, else
./sagestore.yaml, else ~/.sage/config.yaml, else the built-in one, which needs no
server and keeps everything below ~/.sage.

Exit codes: 0 done, 1 failed, 2 wrong usage or configuration, 3 not found,
4 conflict, 5 a tier is unavailable.`,
		Example: `  sagestore save session.preferences user-42 '{"theme":"dark"}'
  sagestore load session.preferences user-42
  sagestore list session.preferences --prefix user-
  sagestore doctor`,
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          noSuchCommand,
		RunE:          func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	root.SetIn(a.in)
	root.SetOut(a.out)
	root.SetErr(a.err)
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return usagef("see: "+c.CommandPath()+" --help", "%w", err)
	})
	flags := root.PersistentFlags()
	flags.StringVar(&a.config, "config", "", "YAML `file` of the configuration")
	flags.StringVar(&a.dataDir, "data-dir", "", "`directory` below which everything is kept that the configuration does not place")
	root.AddCommand(a.saveCommand(), a.loadCommand(), a.deleteCommand(), a.existsCommand(), a.touchCommand(), a.listCommand(),
		a.sessionCommand(), a.configCommand(), a.initCommand(), a.statsCommand(), a.doctorCommand(), a.versionCommand())
	for _, c := range root.Commands() {
		wantArgs(c)
	}
	return root
}

// wantArgs makes a wrong number of arguments a usage error.
func wantArgs(c *cobra.Command) {
	if check := c.Args; check != nil {
		c.Args = func(c *cobra.Command, args []string) error {
			if err := check(c, args); err != nil {
				if _, ok := errors.AsType[*usageError](err); ok {
					return err
				}
				return usagef("usage: "+c.UseLine(), "%w", err)
			}
			return nil
		}
	}
	for _, sub := range c.Commands() {
		wantArgs(sub)
	}
}

// noSuchCommand is for commands that only hold others.
func noSuchCommand(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	hint := "see: " + c.CommandPath() + " --help"
	if near := c.SuggestionsFor(args[0]); len(near) > 0 {
		hint = "did you mean " + strings.Join(near, " or ") + "?"
	}
	return usagef(hint, "%s has no command %q", c.CommandPath(), args[0])
}

// group makes a command that only holds others.
func group(use, short string, subs ...*cobra.Command) *cobra.Command {
	c := &cobra.Command{Use: use, Short: short, Args: noSuchCommand, RunE: func(c *cobra.Command, _ []string) error { return c.Help() }}
	c.SuggestionsMinimumDistance = 2
	c.AddCommand(subs...)
	return c
}

// configFile answers the file to read, "" for the built-in configuration.
func (a *app) configFile() (string, error) {
	if a.config != "" {
		return a.config, nil
	}
	if path := os.Getenv("SAGESTORE_CONFIG"); path != "" {
		return path, nil
	}
	candidates := []string{"sagestore.yaml"}
	if home, err := os.UserHomeDir(); err == nil {
		candidates = append(candidates, filepath.Join(home, ".sage", "config.yaml"))
	}
	for _, path := range candidates {
		switch _, err := os.Stat(path); {
		case err == nil:
			return path, nil
		case !errors.Is(err, fs.ErrNotExist):
			return "", err
		}
	}
	return "", nil
}

// options are those with which a configuration is read and resolved.
func (a *app) options() []config.Option {
	opts := []config.Option{config.Drivers(all.Tiers())}
	if a.dataDir != "" {
		opts = append(opts, config.DataDir(a.dataDir))
	}
	return opts
}

func (a *app) readConfig() (cfg *config.Config, file string, err error) {
	file, err = a.configFile()
	if err != nil {
		return nil, "", err
	}
	if file == "" {
		cfg = config.Default()
		cfg.DataDir = a.dataDir
		return cfg, "", nil
	}
	cfg, err = config.Load(file, a.options()...)
	if errors.Is(err, fs.ErrNotExist) {
		err = usagef("sagestore init writes one", "%w", err)
	}
	return cfg, file, err
}

// with opens the store for fn and closes it afterwards.
func (a *app) with(ctx context.Context, fn func(m *manager.Manager) error) (err error) {
	cfg, _, err := a.readConfig()
	if err != nil {
		return err
	}
	m, err := manager.Open(ctx, cfg, all.Tiers(), manager.WithoutJobs())
	if err != nil {
		return err
	}
	defer func() {
		ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), closePatience)
		defer cancel()
		if closing := m.Close(ending); err == nil {
			err = closing
		}
	}()
	return fn(m.Namespace(a.namespace))
}

// refuseMemory refuses a home that would be gone before anyone could look.
func refuseMemory(m *manager.Manager, tier, what string) error {
	info := m.Tiers()[tier]
	if info.Scope == tiers.ScopeProcess {
		return usagef("name a category of another tier, or change its tier in the configuration",
			"%s lives in the memory of one process, so no command can reach it", what)
	}
	return nil
}
