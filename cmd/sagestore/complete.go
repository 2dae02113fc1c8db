package main

import (
	"github.com/spf13/cobra"
)

// completeCategory completes the first argument of a data command. It opens
// nothing, so it knows what the configuration and the built-in rules know.
func (a *app) completeCategory(c *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) > 0 || c.Flags().Changed("store") {
		if c.Name() == "save" && len(args) > 0 {
			return nil, cobra.ShellCompDirectiveDefault // @FILE
		}
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	e, _, err := a.effective()
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	var names []cobra.Completion
	for _, p := range e.Policies() {
		if p.Tier != "memory" {
			names = append(names, cobra.CompletionWithDesc(p.Category, p.Tier+", "+lifeText(p)))
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

func (a *app) completeStore(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	e, _, err := a.effective()
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	var names []cobra.Completion
	for _, r := range e.Routes {
		if r.Tier != "memory" {
			names = append(names, cobra.CompletionWithDesc(r.Tier, r.Driver))
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// completeCompletion gives cobra's completion command the answers of the others
// to wrong arguments.
func completeCompletion(root *cobra.Command) {
	root.InitDefaultCompletionCmd("completion")
	for _, c := range root.Commands() {
		if c.Name() != "completion" {
			continue
		}
		c.Short = "Write the completion script of a shell"
		c.Long = `Write the script with which a shell completes the commands, flags, categories and
stores of sagestore. The help of each shell's command says how to load it.`
		c.Example = `  source <(sagestore completion bash)
  sagestore completion zsh > "${fpath[1]}/_sagestore"`
		c.Args, c.SuggestionsMinimumDistance = noSuchCommand, 2
		c.RunE = func(c *cobra.Command, _ []string) error { return c.Help() }
		for _, shell := range c.Commands() {
			shell.Args = count(0, 0)
		}
	}
}
