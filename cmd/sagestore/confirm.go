package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"
)

// confirm asks before something is destroyed. Without a terminal to ask at it
// demands --yes.
func (a *app) confirm(ctx context.Context, what string, yes bool) error {
	return a.ask(ctx, what, yes, "add --yes, or look first with --dry-run")
}

// ask is confirm with its own word about what to do without a terminal.
func (a *app) ask(ctx context.Context, what string, yes bool, hint string) error {
	if yes {
		return nil
	}
	f, ok := a.in.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return usagef(hint, "this would %s, and there is no terminal to ask at", what)
	}
	_, _ = fmt.Fprintf(a.err, "%s? [y/N] ", what)
	answer, err := patiently(ctx, func() (string, error) { return bufio.NewReader(f).ReadString('\n') })
	if err != nil && !errors.Is(err, io.EOF) { // the end of input is no
		return err
	}
	if answer = strings.ToLower(strings.TrimSpace(answer)); answer != "y" && answer != "yes" {
		_, _ = fmt.Fprintln(a.err, "nothing was done")
		return silent(exitFailed)
	}
	return nil
}
