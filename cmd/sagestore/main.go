// Command sagestore is the command line of sagestore: it saves and loads by category,
// checks a configuration and a running store, shows and mends sessions, agents and
// checkpoints, imports, exports and migrates, and makes and restores backups.
// docs/CLI.md describes every command.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/sagestore/sagestore/tiers"
)

func main() { os.Exit(run(nil)) }

// run is main with the exit code as its result, so that deferred calls happen. Of the
// drivers nil are all.
func run(drivers tiers.Drivers) int {
	ends := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) { // as below nohup
		ends = append(ends, syscall.SIGHUP)
	}
	ctx, stop := signal.NotifyContext(context.Background(), ends...)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends at once
	a := &app{in: os.Stdin, out: os.Stdout, err: os.Stderr, drivers: drivers}
	return a.run(ctx, os.Args[1:])
}
