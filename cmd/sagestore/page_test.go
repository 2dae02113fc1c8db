package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// commands answers every command of the tree.
func commands(c *cobra.Command) []*cobra.Command {
	all := []*cobra.Command{c}
	for _, sub := range c.Commands() {
		all = append(all, commands(sub)...)
	}
	return all
}

func eachCommand(fn func(name, example string)) {
	for _, c := range commands(new(app).root()) {
		fn(c.CommandPath(), c.Example)
	}
}

// sections cuts a page at its headings of the third level that name a command.
func sections(page string) map[string]string {
	found := map[string]string{}
	for _, part := range strings.Split(page, "\n### ")[1:] {
		heading, text, _ := strings.Cut(part, "\n")
		text, _, _ = strings.Cut(text, "\n## ")
		if name := strings.Trim(heading, "`"); name != heading {
			found[name] = text
		}
	}
	return found
}

func TestPageTellsOfEveryCommandAndFlag(t *testing.T) {
	b, err := os.ReadFile(filepath.Join("..", "..", "docs", "CLI.md"))
	if err != nil {
		t.Fatal(err)
	}
	found := sections(string(b))
	known := map[string]bool{}
	root := new(app).root()
	for _, c := range commands(root) {
		name := c.CommandPath()
		if c == root {
			continue
		}
		text, ok := found[name]
		if !ok && c.HasSubCommands() && c.Name() != "completion" {
			continue // its commands have sections of their own
		}
		if parent := c.Parent(); !ok && parent.Name() == "completion" {
			name, ok = parent.CommandPath(), true
			text = found[name]
		}
		if !ok {
			t.Errorf("there is no section %q", name)
			continue
		}
		known[name] = true
		if use := strings.TrimSuffix(c.UseLine(), " [flags]"); !strings.Contains(text, use) && c.Parent().Name() != "completion" {
			t.Errorf("the section %q does not show %q", name, use)
		}
		c.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
			if f.Name != "help" && !strings.Contains(text, "`--"+f.Name) {
				t.Errorf("the section %q does not tell of --%s", name, f.Name)
			}
		})
	}
	for name := range found {
		if !known[name] {
			t.Errorf("the page tells of %q, which there is not", name)
		}
	}
	root.InitDefaultHelpFlag()
	root.InitDefaultVersionFlag()
	root.Flags().VisitAll(func(f *pflag.Flag) {
		if !strings.Contains(string(b), "`--"+f.Name) {
			t.Errorf("the page does not tell of --%s", f.Name)
		}
	})
	for code := exitOK; code <= exitUnavailable; code++ {
		if !strings.Contains(string(b), fmt.Sprintf("\n| %d | ", code)) {
			t.Errorf("the page does not tell of exit code %d", code)
		}
	}
}

func TestEveryCommandHelpsWithTextAndExample(t *testing.T) {
	for _, c := range commands(new(app).root()) {
		if c.Short == "" || c.Long == "" {
			t.Errorf("%s has no help", c.CommandPath())
		}
		if c.Runnable() && !c.HasSubCommands() && c.Example == "" && c.Parent().Name() != "completion" {
			t.Errorf("%s has no example", c.CommandPath())
		}
	}
}

var consoleBlock = regexp.MustCompile("(?ms)^```console\n(.*?)^```")

// scriptPage is `page FILE`: the commands after "$ " in the console blocks of the
// page are run one after the other, and print what is below them. There "..."
// stands for any text. In "echo $?" it is the exit code of the one before.
func scriptPage(ts *testscript.TestScript, _ bool, args []string) {
	ran, code := 0, 0
	for _, block := range consoleBlock.FindAllStringSubmatch(ts.ReadFile(args[0]), -1) {
		for _, part := range strings.Split("\n"+block[1], "\n$ ")[1:] {
			command, want, _ := strings.Cut(part, "\n")
			code = codeOf(ts, "sh", "-c", fmt.Sprintf("exec 2>&1; (exit %d); %s", code, command))
			if got := ts.ReadFile("stdout"); !alike(got, want) {
				ts.Fatalf("%s\nprints\n%s\nthe page says\n%s", command, got, want)
			}
			ran++
		}
	}
	if ran < 15 {
		ts.Fatalf("only %d commands were found", ran)
	}
}

// alike compares text with a pattern in which "..." stands for any text.
func alike(got, want string) bool {
	var pattern strings.Builder
	for i, text := range strings.Split(strings.TrimSpace(want), "...") {
		if i > 0 {
			pattern.WriteString("(?s:.*?)")
		}
		pattern.WriteString(regexp.QuoteMeta(text))
	}
	return regexp.MustCompile("^" + pattern.String() + "$").MatchString(strings.TrimSpace(got))
}
