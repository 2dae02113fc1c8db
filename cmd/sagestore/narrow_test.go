package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/rivo/uniseg"

	"github.com/sagestore/sagestore/agent"
	"github.com/sagestore/sagestore/backup"
	"github.com/sagestore/sagestore/config"
	"github.com/sagestore/sagestore/manager"
	"github.com/sagestore/sagestore/session"
)

// TestWhatIsPrintedFitsTheTerminal prints at widths of terminals, and holds what is
// left of a head and of a row where there is no room for all of it.
func TestWhatIsPrintedFitsTheTerminal(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	count := int64(1234)
	stats := usage{
		Categories: map[string]categoryUsage{
			"agent.conversations": {Tier: "database", Codec: "json", TTL: "never", Entries: 1234567, Bytes: 123456789},
			"session.context":     {Tier: "cache", Codec: "msgpack", TTL: "session", Unlisted: true, Entries: 1, Bytes: 2},
		},
		Tiers:   map[string]tierUsage{"database": {"sqlite", "/var/lib/program/data/of/this/host/sage.db", &count, &count}},
		Journal: map[string]manager.Waiting{},
	}
	backups := []backup.Entry{{ID: "20260102T030405.000Z-0a1b", Verified: at, Manifest: backup.Manifest{
		Created: at, Took: time.Second, Store: "0123456789", Parts: []backup.PartInfo{{Name: "database"}},
	}}}
	shown := backup.Entry{ID: "20260102T030405.000Z-0a1b", Verified: at, Manifest: backup.Manifest{
		Created: at, Took: time.Second, Store: "0123456789", Tools: map[string]string{"sagestore": "v1.2.3 with SQLite 3.53"},
		Parts: []backup.PartInfo{{Name: "database", Format: "sqlite", Records: []backup.RecordCount{{Category: "agent.conversations", Records: 12}}}},
	}}
	event := session.Event{Seq: 12, Time: at, Method: "user.prompt.submit", Turn: "turn-001", Params: json.RawMessage(`{"prompt":"where is the order that I placed last week, and why is it late"}`)}
	pending := func(yield func(manager.PendingWrite, error) bool) {
		yield(manager.PendingWrite{Tier: "cache", Category: "session.history", Key: "s-1/000001", Op: "save", Version: 1767323045000000, Since: at, Bytes: 12, Cause: "dial tcp 127.0.0.1:6379: connect: connection refused, since the server is away"}, nil)
	}
	settings := []config.Setting{{Path: "backup.destination.schedule.window", Value: "every night from half past two until six", Source: "/etc/sagestore/production.yaml:128"}}
	results := []result{{Line: 12, Op: "save", Namespace: "acme", Category: "session.history", Key: "s-1/turn-000001", Result: "saved", Version: 1}}
	talk := &agent.Conversation{
		ID: "conversation-0123456789", AgentID: "support", Title: "Where is the order that I placed last week, and why is it late", Created: at, LastMessage: at, Count: 1,
		Messages: []agent.Message{{Seq: 7, At: at, Role: agent.Assistant, Content: "It is on its way to you, and should be there tomorrow before noon."}},
	}
	for _, c := range []struct {
		what  string
		print func(a *app) error
		want  map[int][]string // lines that are there, by width
	}{
		{"stats", func(a *app) error { return a.printUsage(stats) }, map[int][]string{
			40: {
				"CATEGORY                    ENTRIES", "agent.conversations         1234567", "session.context (unlisted)  1",
				"TIER      DRIVER  ENTRIES  BYTES", "database  sqlite  1234     1234",
			},
			80: {
				"CATEGORY                    TIER      CODEC    TTL      ENTRIES  BYTES", "agent.conversations         database  json     never    1234567  123456789",
				"TIER      DRIVER  ENTRIES  BYTES  PLACE", "database  sqlite  1234     1234   /var/lib/program/data/of/this/host/sage.db",
			},
			120: {"CATEGORY                    TIER      CODEC    TTL      ENTRIES  BYTES"},
		}},
		{"backup list", func(a *app) error { return a.printBackups(backups, "other") }, map[int][]string{
			40:  {"ID                         STATE", "20260102T030405.000Z-0a1b  verified"},
			80:  {"ID                         CREATED               STORE     SIZE  STATE", "20260102T030405.000Z-0a1b  2026-01-02T03:04:05Z  01234567  0 B   verified"},
			120: {"ID                         CREATED               STORE     RECORDS  SIZE  STORED  TOOK  STATE"},
		}},
		{"backup show", func(a *app) error { return a.showBackup(shown) }, map[int][]string{
			40:  {"made by        sagestore v1.2.3 with", "               SQLite 3.53", "PART      SIZE  STORED  RECORDS  FILES", "agent.conversations                  12"},
			80:  {"made by        sagestore v1.2.3 with SQLite 3.53", "PART      FORMAT  SIZE  STORED  RECORDS  FILES", "CATEGORY             NAMESPACE  RECORDS"},
			120: {"store          0123456789"},
		}},
		{"journal list", func(a *app) error { return a.printPending(pending) }, map[int][]string{
			40:  {"CATEGORY         KEY         OP", "session.history  s-1/000001  save"},
			80:  {"TIER   CATEGORY         KEY         OP    SINCE                 WHY", "cache  session.history  s-1/000001  save  2026-01-02T03:04:05Z  dial tcp 127.0.…"},
			120: {"TIER   CATEGORY         KEY         OP    VERSION           SINCE                 BYTES  WHY"},
		}},
		{"config show", func(a *app) error { return a.printSettings(settings) }, map[int][]string{
			40:  {"SETTING                   VALUE", "backup.destination.sche…  every night f…"},
			80:  {"SETTING                    VALUE                      SOURCE", "backup.destination.sched…  every night from half pa…  /etc/sagestore/production…"},
			120: {"backup.destination.schedule.window  every night from half past two until six  /etc/sagestore/production.yaml:128"},
		}},
		{"apply", func(a *app) error { return a.printResults(results, txSummary{Transaction: "t-1"}) }, map[int][]string{
			40:  {"12  save  s-1/turn-000001  version 1", "transaction t-1"},
			80:  {"12  save  acme:session.history  s-1/turn-000001  version 1"},
			120: {"12  save  acme:session.history  s-1/turn-000001  version 1", "transaction t-1"},
		}},
		{"event list", func(a *app) error { return a.printEvent(event) }, map[int][]string{
			40:  {"    12  user.prompt.submit  where is th…"},
			80:  {"    12  2026-01-02T03:04:05Z  user.prompt.submit  turn-001  where is the order …"},
			120: {"    12  2026-01-02T03:04:05Z  user.prompt.submit  turn-001  where is the order that I placed last week, and why is it l…"},
		}},
		{"conversation show", func(a *app) error { return a.printConversation(talk) }, map[int][]string{
			40: {
				"conversation   conversation-0123456789", "title          Where is the order that I", "               placed last week, and why", "               is it late",
				"     7  assistant  It is on its way to …",
			},
			80: {
				"title          Where is the order that I placed last week, and why is it late",
				"     7  2026-01-02T03:04:05Z  assistant  It is on its way to you, and should be…",
			},
			120: {"     7  2026-01-02T03:04:05Z  assistant  It is on its way to you, and should be there tomorrow before noon."},
		}},
	} {
		for width, want := range c.want {
			var out bytes.Buffer
			if err := c.print(&app{out: &out, columns: width}); err != nil {
				t.Fatal(err)
			}
			for line := range strings.SplitSeq(out.String(), "\n") {
				if n := uniseg.StringWidth(line); n > width {
					t.Errorf("%s, %d wide: a line is %d wide: %s", c.what, width, n, line)
				}
			}
			for _, line := range want {
				if !strings.Contains("\n"+out.String(), "\n"+line+"\n") {
					t.Errorf("%s, %d wide: there is no line\n%s\nin\n%s", c.what, width, line, out.String())
				}
			}
		}
		var piped bytes.Buffer
		if err := c.print(&app{out: &piped}); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(piped.String(), "…") {
			t.Errorf("%s: something is cut where there is no terminal:\n%s", c.what, piped.String())
		}
	}
}
