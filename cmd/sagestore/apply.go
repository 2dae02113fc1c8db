package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/sagestore/sagestore/config"
	"github.com/sagestore/sagestore/manager"
	"github.com/sagestore/sagestore/tiers"
)

// applyRetries is how often the whole is tried again because somebody else has
// changed a key meanwhile.
const applyRetries = 10

func (a *app) applyCommand() *cobra.Command {
	var dry bool
	c := &cobra.Command{
		Use:   "apply FILE|-",
		Short: "Save, delete and touch several keys as one transaction",
		Long: `Carry out the operations of a file, or of standard input for "-", as one
transaction over all tiers: all of them or none. Each line of the file is a JSON
object:

  {"op":"save","category":"...","key":"...","value":...}
      with "ttl":"24h", "if_version":N, "if_absent":true where wanted
  {"op":"delete","category":"...","key":"..."}
      with "if_version":N where wanted
  {"op":"touch","category":"...","key":"..."}
      with "ttl":"7d" where wanted

"store":"NAME" may stand instead of "category", and "namespace":"NAME" beside it.
Everything is checked first, and all wrong lines are reported with their numbers.
A condition that does not hold ends with 4, a touch of what is not there with 3;
nothing is changed then. It prints a line for each operation, with the version
that the key got, or what became of it, and the id of the transaction. A key that
gets a "ttl" of 0 or less is absent at once: expired.`,
		Example: `  echo '{"op":"delete","category":"session.preferences","key":"user-42"}' | sagestore apply - --dry-run
  echo '{"op":"save","store":"database","key":"session:123","value":{"step":8}}' | sagestore apply - --json`,
		Args: count(1, 1),
		RunE: func(c *cobra.Command, args []string) error {
			return a.apply(c.Context(), args[0], dry)
		},
	}
	c.Flags().BoolVar(&dry, "dry-run", false, "only say what would change")
	c.Flags().BoolVar(&a.json, "json", false, "print a JSON object for each operation, one a line, and one for the whole")
	c.Flags().StringVar(&a.namespace, "namespace", "", "`name` of the namespace of lines that name none")
	return c
}

// change is an operation and the place that it is about.
type change struct {
	operation
	encoded any // the value of a save
	result  result
}

// txPlace is a key as a transaction names it.
type txPlace struct{ namespace, category, key string }

// result is what became of an operation, or would.
type result struct {
	Line      int           `json:"line"`
	Op        string        `json:"op"`
	Namespace string        `json:"namespace,omitempty"`
	Category  string        `json:"category"`
	Key       string        `json:"key"`
	Tier      string        `json:"tier"`
	Result    string        `json:"result"`
	Version   tiers.Version `json:"version,omitempty"`
	By        int           `json:"by,omitempty"` // the line that changed the key again
}

func (a *app) apply(ctx context.Context, file string, dry bool) error {
	wrong := &linesError{file: file, last: "nothing was changed"}
	if file == "-" {
		wrong.file = "standard input"
	}
	ops, err := a.operations(ctx, file, wrong)
	if err != nil {
		return err
	}
	if len(ops) == 0 && len(wrong.all) == 0 {
		_, _ = fmt.Fprintf(a.err, "sagestore: %s holds no operation\n", wrong.file)
		return nil
	}
	return a.with(ctx, func(m *manager.Manager) error {
		changes := changesOf(m, a.namespace, ops, wrong)
		if err := wrong.err(); err != nil {
			return err
		}
		if dry {
			return a.rehearse(ctx, m, changes, wrong)
		}
		return a.commit(ctx, m, changes, wrong)
	})
}

// operations reads the operations of a file. An error is that it can't be read.
func (a *app) operations(ctx context.Context, file string, wrong *linesError) ([]operation, error) {
	read := func(r io.Reader) ([]operation, error) {
		var found linesError // of its own, since nobody may wait for it any more
		ops := readOperations(r, &found)
		return ops, found.err()
	}
	in := a.in
	switch file {
	case "":
		return nil, usagef("- is standard input", "the name of the file is empty")
	case "-":
	default:
		f, err := os.Open(file) //nolint:gosec // the user names the file
		if err != nil {
			return nil, usagef("FILE holds the operations; - is standard input", "%w", err)
		}
		defer func() { _ = f.Close() }() // it was only read
		in = f
	}
	ops, err := patiently(ctx, func() ([]operation, error) { return read(in) })
	if found, ok := errors.AsType[*linesError](err); ok {
		wrong.all, wrong.more = found.all, found.more
		return ops, nil
	}
	return ops, err
}

// changesOf finds the place of each operation.
func changesOf(m *manager.Manager, namespace string, ops []operation, wrong *linesError) []change {
	changes := make([]change, 0, len(ops))
	f := finder{m: m, namespace: namespace, policies: map[string]policyAnswer{}}
	for _, o := range ops {
		c, err := f.find(o)
		wrong.add(o.line, err)
		changes = append(changes, c)
	}
	return changes
}

// finder looks up each category once.
type finder struct {
	m         *manager.Manager
	namespace string
	policies  map[string]policyAnswer
}

type policyAnswer struct {
	policy config.Policy
	err    error
}

func (f *finder) policy(category string) (config.Policy, error) {
	known, ok := f.policies[category]
	if !ok {
		known.policy, known.err = policyOf(f.m, category)
		if known.err == nil {
			known.err = refuseMemory(f.m, known.policy.Tier, "the category "+category)
		}
		f.policies[category] = known
	}
	return known.policy, known.err
}

func (f *finder) find(o operation) (c change, err error) {
	c = change{operation: o}
	at := txPlace{f.namespace, o.category, o.key}
	if o.namespace != nil {
		at.namespace = *o.namespace
	}
	if o.byStore {
		s := f.m.Store(o.store)
		if err := checkStore(f.m, s, "store"); err != nil {
			return c, err
		}
		at.category, at.key = s.Place(o.key)
	}
	p, err := f.policy(at.category)
	if err != nil {
		return c, err
	}
	c.result = result{Line: o.line, Op: o.op, Namespace: at.namespace, Category: at.category, Key: at.key, Tier: p.Tier}
	switch {
	case o.op != "save":
	case p.Codec == "json":
		c.encoded = manager.Encoded{Codec: "json", Value: o.value} // it was checked with its line
	case p.Codec == "gob" || p.Codec == "raw":
		err = usagef("sagestore save --raw stores bytes as they are, one key at a time", "values of codec %s can't be written as JSON", p.Codec)
	default:
		c.encoded, err = parse(o.value, p.Codec, false)
	}
	return c, err
}

// commit carries out the changes and says what became of them.
func (a *app) commit(ctx context.Context, m *manager.Manager, changes []change, wrong *linesError) error {
	refused := errors.New("a line was refused")
	var tx *manager.Tx
	err := m.Update(ctx, func(now *manager.Tx) error {
		tx = now
		wrong.all, wrong.more = nil, 0
		for i := range changes {
			err := changes[i].carryOut(ctx, tx)
			wrong.add(changes[i].line, outsideTx(err))
			if errors.Is(err, tiers.ErrUnavailable) || ctx.Err() != nil {
				break // it would be so for each
			}
		}
		if len(wrong.all) > 0 {
			return refused
		}
		return nil
	}, manager.WithRetry(applyRetries))
	if errors.Is(err, refused) {
		return wrong
	}
	if err != nil {
		return err
	}
	results := settled(tx, changes)
	if err := a.printResults(results, txSummary{Transaction: tx.ID(), Operations: len(results)}); err != nil {
		return tiers.Hint(fmt.Errorf("everything was stored, by the transaction %s, and this could not be printed: %w", tx.ID(), err),
			"sagestore journal outcome "+tx.ID())
	}
	return nil
}

// carryOut does the operation in a transaction.
func (c *change) carryOut(ctx context.Context, tx *manager.Tx) (err error) {
	tx, r := tx.Namespace(c.result.Namespace), &c.result
	var done bool
	switch c.op {
	case "save":
		r.Result = c.kept("saved")
		_, err = tx.SaveItem(ctx, r.Category, r.Key, c.encoded, c.saveOptions()...)
	case "delete":
		r.Result = "deleted"
		var opts []manager.DeleteOption
		if c.version != nil {
			opts = append(opts, manager.IfVersion(tiers.Version(*c.version)))
		}
		if done, err = tx.Delete(ctx, r.Category, r.Key, opts...); !done {
			r.Result = "absent"
		}
	default:
		r.Result = c.kept("touched")
		var lives []manager.Life
		if c.life != nil {
			lives = append(lives, c.life)
		}
		if done, err = tx.Touch(ctx, r.Category, r.Key, lives...); !done && err == nil {
			err = c.notFound()
		}
	}
	return err
}

// kept is the result unless the key ends with the operation.
func (c *change) kept(result string) string {
	if c.life == manager.TTL(0) {
		return "expired"
	}
	return result
}

func (c *change) notFound() error {
	r := c.result
	return tiers.Fail(c.op, r.Tier, tiers.Key{Namespace: r.Namespace, Category: r.Category, Name: r.Key}, tiers.ErrNotFound)
}

// outsideTx leaves out of an error which transaction it was in: nothing of that
// was ever there.
func outsideTx(err error) error {
	if e, ok := err.(*tiers.Error); ok && !errors.Is(err, tiers.ErrCommitUnknown) { //nolint:errorlint // the outermost names it
		plain := *e
		plain.Tx = ""
		plain.Err = outsideTx(e.Err)
		return &plain
	}
	return err
}

// settled answers the results with the versions that the commit made.
func settled(tx *manager.Tx, changes []change) []result {
	results := make([]result, len(changes))
	last := map[txPlace]int{} // the line that changed the key after the one that is looked at
	for i := len(changes) - 1; i >= 0; i-- {
		r := changes[i].result
		at := txPlace{r.Namespace, r.Category, r.Key}
		switch by := last[at]; {
		case r.Result == "absent":
		case by != 0:
			r.Result, r.By = "superseded", by
		default:
			last[at] = r.Line
			r.Version = tx.Namespace(r.Namespace).Version(r.Category, r.Key)
		}
		results[i] = r
	}
	return results
}

// txSummary is the last line of the answer.
type txSummary struct {
	Transaction string `json:"transaction,omitempty"`
	DryRun      bool   `json:"dry_run,omitempty"`
	Operations  int    `json:"operations"`
	Refused     int    `json:"refused,omitempty"`
}

func (a *app) printResults(results []result, s txSummary) error {
	if a.json {
		for i := range results {
			if err := a.printLine(results[i]); err != nil {
				return err
			}
		}
		return a.printLine(s)
	}
	t := table{whole: true, bare: true, columns: []column{{}, {spare: 1}, {shrink: true, spare: 2}, {shrink: true, least: 12}, {shrink: true, least: 16}}} // the line names it
	for i := range results {
		r := &results[i]
		t.add(fmt.Sprint(r.Line), r.Op, inNamespace(r.Namespace, r.Category), shown(r.Key), r.text(s.DryRun))
	}
	if err := a.printTable(t); err != nil {
		return err
	}
	if s.DryRun {
		_, err := fmt.Fprintf(a.out, "dry run: %s, %d refused\n", many(s.Operations, "operation"), s.Refused)
		return err
	}
	_, err := fmt.Fprintln(a.out, "transaction", s.Transaction)
	return err
}

// inNamespace is a category as a table shows it.
func inNamespace(namespace, category string) string {
	if namespace == "" {
		return category
	}
	return namespace + ":" + category
}

// text is the result as a table shows it.
func (r *result) text(dry bool) string {
	switch {
	case r.By != 0 && !dry:
		return fmt.Sprintf("superseded by line %d", r.By)
	case r.By != 0:
		return fmt.Sprintf("%s what line %d leaves", r.Result, r.By)
	case r.Version == 0:
		return r.Result
	case dry && r.Result == "conflict":
		return fmt.Sprintf("conflict with version %d", r.Version)
	case dry:
		return fmt.Sprintf("%s version %d", r.Result, r.Version)
	}
	return fmt.Sprintf("version %d", r.Version)
}
