package main

import (
	"cmp"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
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

	drivers tiers.Drivers // that a configuration may name; nil: those of package all

	config    string
	dataDir   string
	restored  string
	namespace string
	store     string
	json      bool
	dest      string // of backups, instead of the configuration's
	columns   int    // of the terminal; 0: it is asked
	strict    bool   // codecs and drivers that an app may bring are faults
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

Data goes to standard output, all else to standard error. Exit codes: 0 done,
1 failed, 2 wrong usage or configuration, 3 not found, 4 conflict (exists already,
another version, session has ended), 5 a tier is unavailable.`,
		Example: `  sagestore save session.preferences user-42 '{"theme":"dark"}'
  sagestore load session.preferences user-42
  sagestore list session.preferences --prefix user-
  sagestore doctor`,
		Version:       versionOf(readBuild()),
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          noSuchCommand,
		RunE:          func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	root.SetIn(a.in)
	root.SetOut(a.out)
	root.SetErr(a.err)
	root.SetVersionTemplate("{{.Version}}\n")
	root.SetFlagErrorFunc(badFlag)
	root.SuggestionsMinimumDistance = 2
	root.PersistentPreRunE = func(c *cobra.Command, _ []string) error {
		if c.Flags().Changed("data-dir") && c.Flags().Changed("restored") {
			return usagef("give --restored alone for what was restored into that directory", "--data-dir and --restored exclude each other")
		}
		if err := notEmpty(c, "config", "data-dir", "restored", "namespace"); err != nil {
			return err
		}
		return refuseUnrestored(a.restored)
	}
	flags := root.PersistentFlags()
	flags.StringVar(&a.config, "config", "", "YAML `file` of the configuration")
	flags.StringVar(&a.dataDir, "data-dir", "", "`directory` below which everything is kept that the configuration does not place")
	flags.StringVar(&a.restored, "restored", "", "`directory` that backup restore --to was given: work there, whatever places and servers the configuration names")
	root.AddCommand(a.saveCommand(), a.loadCommand(), a.deleteCommand(), a.existsCommand(), a.touchCommand(), a.listCommand(),
		a.applyCommand(), a.journalCommand(), a.backupCommand(), a.migrateCommand(),
		a.sessionCommand(), a.eventCommand(), a.tokenCommand(), a.importCommand(), a.exportCommand(),
		a.agentCommand(), a.conversationCommand(), a.searchCommand(), a.checkpointCommand(), a.toolCommand(), a.configCommand(), a.initCommand(), a.statsCommand(), a.doctorCommand(), a.versionCommand())
	root.SetHelpCommand(helpCommand(root))
	root.InitDefaultHelpCmd()
	completeCompletion(root)
	return root
}

// helpCommand is cobra's, but for its answer to a command that there is not.
func helpCommand(root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use:     "help [COMMAND...]",
		Short:   "Show the help of a command",
		Long:    `Show the help of a command, as COMMAND --help does.`,
		Example: `  sagestore help session end`,
		RunE: func(_ *cobra.Command, args []string) error {
			c, rest, err := root.Find(args)
			if err != nil {
				return usagef("see: sagestore --help", "%w", err)
			}
			if len(rest) > 0 {
				return noSuchCommand(c, rest)
			}
			c.InitDefaultHelpFlag()
			return c.Help()
		},
	}
}

// group makes a command that only holds others.
func group(use, short, long string, subs ...*cobra.Command) *cobra.Command {
	c := &cobra.Command{Use: use, Short: short, Long: long, Args: noSuchCommand, RunE: func(c *cobra.Command, _ []string) error { return c.Help() }}
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
		case !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR):
			return "", usagef("name another with --config", "%w", err)
		}
	}
	return "", nil
}

// registry answers the drivers that a configuration may name.
func (a *app) registry() tiers.Drivers {
	if a.drivers == nil {
		return all.Tiers()
	}
	return slices.Clone(a.drivers)
}

// options are those with which a configuration is read and resolved.
func (a *app) options() []config.Option {
	opts := []config.Option{config.Drivers(a.registry())}
	if a.dataDir != "" {
		opts = append(opts, config.DataDir(a.dataDir))
	}
	if a.restored != "" {
		opts = append(opts, config.Restored(a.restored))
	}
	if !a.strict {
		opts = append(opts, config.Foreign())
	}
	return opts
}

func (a *app) readConfig() (cfg *config.Config, file string, err error) {
	cfg, file, err = a.loadConfig()
	if err == nil && a.dest != "" {
		err = a.toDestination(cfg)
	}
	return cfg, file, err
}

func (a *app) loadConfig() (cfg *config.Config, file string, err error) {
	file, err = a.configFile()
	if err != nil {
		return nil, "", err
	}
	if file == "" {
		cfg = config.Default()
		cfg.DataDir = cmp.Or(a.restored, a.dataDir)
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
	e, err := cfg.Resolve(a.options()...)
	if err != nil {
		return err
	}
	drivers, codecs := standIns(e, a.registry())
	m, err := manager.Open(ctx, cfg, drivers, manager.WithoutJobs(), codecs, manager.WithBuckets(openBucket))
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
	if info, ok := m.Tiers()[tier]; !ok || info.Scope == tiers.ScopeProcess {
		return usagef("name a category of another tier, or change its tier in the configuration",
			"%s lives in the memory of one process, so no command can reach it", what)
	}
	return nil
}
