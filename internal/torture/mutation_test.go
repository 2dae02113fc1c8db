//go:build linux

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// mutation is a store that breaks a promise.
type mutation struct {
	why    string
	edits  []edit
	faults string
	cache  string
	agents bool
	long   bool // not in CI, but with SAGESTORE_MUTATIONS

	postgres bool
}

type edit struct{ file, old, new string }

func mutations() []mutation {
	all := []mutation{
		{why: "the rows of the journal are not written", edits: []edit{{
			"tiers/database/commit.go",
			"if out.Rows[i], err = x.appendRow(r, tiers.Cond{}, d.RowLimits[r.Tier], of); err != nil {",
			"if out.Rows[i], _ = r, of; err != nil {",
		}}, faults: "kill", cache: "file"},
		{why: "rows go over whatever is there", edits: []edit{{
			"internal/filetree/change.go",
			"} else if c.live > r.Version || c.live == r.Version && !gone {",
			"} else if c.live == r.Version && !gone {",
		}, {
			"internal/filetree/change.go",
			"if over.Holds(c.live) != nil {\n\t\t\treturn false, nil\n\t\t}",
			"_ = over",
		}}, faults: "kill", cache: "file"},
		{why: "rows that are left are never applied", edits: []edit{{
			"txn/applying.go",
			"for retry := firstRetry; j.view.any() && ctx.Err() == nil;",
			"for retry := firstRetry; retry == 0;",
		}}, faults: "kill", cache: "file"},
		{why: "reads are not compared at the commit", edits: []edit{{
			"tiers/database/commit.go",
			"if v != micro(r.Version) {",
			"if v < 0 {",
		}}, faults: "kill", cache: "file"},
		{why: "memory is published before the decision", edits: []edit{{
			"txn/commit.go",
			"\tif c.e.committer == nil {\n\t\treturn c.alone(ctx, &out)",
			"\tc.finish(true)\n\tif c.e.committer == nil {\n\t\treturn c.alone(ctx, &out)",
		}}, faults: "kill", cache: "file"},
	}
	return append(append(all, agentMutations()...), postgresMutations()...)
}

// postgresMutations are stores on PostgreSQL and Redis that break a promise.
func postgresMutations() []mutation {
	const resolved = "case committed:\n\t\tx.recall(ctx, jobs)\n\t\tanswerAll(jobs, nil)"
	return []mutation{
		{why: "rows go over whatever Redis has", edits: []edit{{
			"tiers/cache/redis/scripts.go",
			"if cond == 1 then over = check(h, cond, want) == 'k'\n  else over = not h or unpack_('>I8', h, 3) <= version end",
			"over = true",
		}}, faults: "redis-kill,redis-freeze,kill", postgres: true, long: true},
		{why: "rows that are left are never applied, on PostgreSQL", edits: []edit{{
			"txn/applying.go",
			"for retry := firstRetry; j.view.any() && ctx.Err() == nil;",
			"for retry := firstRetry; retry == 0;",
		}}, faults: "kill", postgres: true, long: true},
		{why: "a commit whose answer was lost counts as rolled back", edits: []edit{{
			"tiers/database/postgres/writer.go", resolved, "case committed:\n\t\tanswerAll(jobs, w.t.plain(cause))",
		}}, faults: "postgres-commit", postgres: true, long: true},
		{why: "a commit whose answer was lost is done again", edits: []edit{{
			"tiers/database/postgres/writer.go", resolved, "case committed:\n\t\tw.again(jobs, tries+1)",
		}}, faults: "postgres-commit", postgres: true, long: true},
		{why: "a commit that got lost in a crash is taken for another one of its number", edits: []edit{{
			"tiers/database/postgres/tx.go",
			"lifeSQL = `(SELECT coalesce(extract(epoch FROM stats_reset)::text, '') FROM pg_stat_bgwriter)`",
			"lifeSQL = `''`",
		}}, faults: "postgres-immediate", postgres: true, long: true},
	}
}

// agentMutations are agents that break a promise.
func agentMutations() []mutation {
	return []mutation{
		{why: "a deletion leaves checkpoints and contents", edits: []edit{{
			"agent/collect.go",
			"for _, prefix := range []string{atInfo, atCopy} {",
			"for _, prefix := range []string{atCopy} {",
		}, {
			"agent/edit.go",
			"return e.giveUp(ctx, part, old)",
			"return nil",
		}}, faults: "kill", cache: "file", agents: true, long: true},
		{why: "what a checkpoint shows is not kept", edits: []edit{{
			"agent/edit.go",
			"if !ok || since > e.led.Newest {",
			"if !ok || since >= e.led.Newest {",
		}}, faults: "kill", cache: "file", agents: true, long: true},
		{why: "a step counts by itself", edits: []edit{{
			"agent/run.go",
			"if err := s.save(ctx, s.checkpoints, atRun+au, rec); err != nil {\n\t\t\treturn err\n\t\t}\n\t\tif !decider",
			"if err := r.store.save(ctx, r.store.checkpoints, atRun+au, rec); err != nil {\n\t\t\treturn err\n\t\t}\n\t\tif !decider",
		}}, faults: "kill", cache: "file", agents: true, long: true},
		{why: "fields outlive their agent", edits: []edit{{
			"agent/agents.go",
			"fields, err := s.Fields(id).clear(ctx)",
			"fields, err := s.Fields(id).Exists(ctx)",
		}}, faults: "kill", cache: "file", agents: true, long: true},
		{why: "the id of a deleted conversation stays", edits: []edit{{
			"agent/conversations.go",
			"e.conversations.DeleteMany(ctx, atID+manager.Key(id), atActive+at)",
			"e.conversations.DeleteMany(ctx, atActive+at)",
		}}, faults: "kill", cache: "file", agents: true, long: true},
		{why: "a deletion leaves the sessions of the agent", edits: []edit{{
			"agent/agents.go",
			"s.books.DeleteOwned(ctx, s.tx, id)",
			"0, error(nil)",
		}}, faults: "kill", cache: "file", agents: true, long: true},
	}
}

// overlay lays the edits over the sources, and answers the file that says so to
// the go command.
func overlay(t *testing.T, edits []edit) string {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	replace, text := map[string]string{}, map[string]string{}
	for _, e := range edits {
		path := filepath.Join(root, e.file)
		if text[path] == "" {
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			text[path] = string(b)
		}
		if strings.Count(text[path], e.old) != 1 {
			t.Fatalf("%s has not once %q: the mutation has to follow the source", e.file, e.old)
		}
		text[path] = strings.Replace(text[path], e.old, e.new, 1)
	}
	for path, s := range text {
		replace[path] = filepath.Join(dir, filepath.Base(path))
		if err := os.WriteFile(replace[path], []byte(s), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	b, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	layer := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(layer, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return layer
}

// A mutation that no longer fits would break nothing, and nobody would notice until it
// is looked for.
func TestWhatMutationsReplaceIsThere(t *testing.T) {
	for _, m := range mutations() {
		for _, e := range m.edits {
			source, err := os.ReadFile(filepath.Join("..", "..", e.file))
			if err != nil || !strings.Contains(string(source), e.old) {
				t.Errorf("%s: %s does not hold what is to be replaced: %v", m.why, e.file, err)
			}
		}
	}
}

// TestABrokenStoreIsFound breaks the store in several ways: all of them in CI or
// with SAGESTORE_MUTATIONS set, some of them else.
func TestABrokenStoreIsFound(t *testing.T) {
	all := os.Getenv("CI") == "true" || os.Getenv("SAGESTORE_MUTATIONS") != ""
	long := os.Getenv("SAGESTORE_MUTATIONS") != ""
	for i, m := range mutations() {
		t.Run(m.why, func(t *testing.T) {
			layer := overlay(t, m.edits)
			if i > 0 && !all || m.long && !long {
				t.Log("the source has what the mutation changes; CI=true builds and runs it")
				return
			}
			binary := build(t, layer)
			const kills = "3000" // at most; found after 200 of them, as a rule
			ctx, cancel := context.WithTimeout(t.Context(), 6*time.Minute)
			defer cancel()
			cmd := exec.CommandContext(ctx, binary, "-quiet", "-kills", kills, "-dir", t.TempDir(), "-faults", m.faults, "-cache", m.cache, fmt.Sprint("-agents=", m.agents), fmt.Sprint("-postgres=", m.postgres))
			cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
			out, err := cmd.CombinedOutput()
			if err == nil || !strings.Contains(string(out), "the store and the logs are in") {
				t.Fatalf("nobody found it: %v: %s", err, out)
			}
			line, _, _ := strings.Cut(string(out), "\n")
			_, what, _ := strings.Cut(string(out), "torture: ")
			t.Logf("%s: %.200s", line, what)
		})
	}
}
