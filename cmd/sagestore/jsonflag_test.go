package main

import (
	"testing"

	"github.com/spf13/cobra"
)

// TestWhatOnlyLooksPrintsJSON asks every command that reads, or that can be asked what it
// would do, for --json. Those that write lines, documents or scripts are named.
func TestWhatOnlyLooksPrintsJSON(t *testing.T) {
	t.Parallel()
	reads := map[string]bool{
		"list": true, "show": true, "title": true, "search": true, "stats": true, "doctor": true, "check": true,
		"outcome": true, "diff": true, "verify": true, "status": true, "load": true, "exists": true, "version": true,
	}
	seen := 0
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		for _, sub := range c.Commands() {
			walk(sub)
		}
		if !c.Runnable() || !reads[c.Name()] && c.Flags().Lookup("dry-run") == nil {
			return
		}
		seen++
		if c.Flags().Lookup("json") == nil {
			t.Errorf("%s has no --json", c.CommandPath())
		}
	}
	walk((&app{}).root())
	if seen < 30 {
		t.Errorf("%d commands were looked at", seen)
	}
}
