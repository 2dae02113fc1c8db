package session_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sagestore/sagestore/sagetest"
	"github.com/sagestore/sagestore/session"
	"github.com/sagestore/sagestore/tiers"
)

// foreign is a log as other programs write it: no IDs, unknown methods and
// members, twins, and numbers that no float holds.
const foreign = `{"jsonrpc":"2.0","method":"session.init","params":{"init_type":"Start","model":"m","provider":"p","session_id":"s","system":"x","timestamp":"2026-01-02T03:04:05.123456789Z"}}
{"jsonrpc":"2.0","method":"user.prompt.submit","params":{"session_id":"s","turn_id":"t1","prompt":"ok <b>","timestamp":"2026-01-02T03:04:06+02:00"}}
{"jsonrpc":"2.0","method":"user.prompt.submit","params":{"session_id":"s","turn_id":"t1","prompt":"ok <b>","timestamp":"2026-01-02T03:04:06+02:00"}}
{"jsonrpc":"2.0","method":"later.version","trace":{"b":9007199254740993,"a":[1.50,null]},"params":{"session_id":"s","turn_id":7,"timestamp":1767323045,"new":{"z":1e400,"y":"\u00e9"}},"id":5}
{"jsonrpc":"2.0","method":"tool.result","params":{"session_id":"s","turn_id":"t1","tool_call_id":"c","result":{"Ok":"fine"},"timestamp":"2026-01-02T03:04:07Z"}}
{"jsonrpc":"2.0","method":"session.stop","params":{"session_id":"s","success":true,"result":[{"text":"a"}],"error":null,"usage":{"latency":1,"input_tokens":2,"output_tokens":3,"cache_write_tokens":0,"cache_read_tokens":0},"timestamp":"2026-01-02T03:04:08Z"}}
`

// meaning is a line without what this package adds to it.
func meaning(t testing.TB, line string) any {
	t.Helper()
	dec := json.NewDecoder(strings.NewReader(line))
	dec.UseNumber()
	var v map[string]any
	must(t, dec.Decode(&v))
	delete(v, "sagestore")
	return v
}

func export(t testing.TB, s *session.Store, id string) string {
	t.Helper()
	var b bytes.Buffer
	must(t, s.Export(t.Context(), id, &b))
	return b.String()
}

func imported(t testing.TB, s *session.Store, text string, added, skipped int) {
	t.Helper()
	a, k, err := s.Import(t.Context(), strings.NewReader(text))
	must(t, err)
	if a != added || k != skipped {
		t.Errorf("imported %d and skipped %d, want %d and %d", a, k, added, skipped)
	}
}

func TestUnknownMethodsAndMembersSurviveImportAndExport(t *testing.T) {
	t.Parallel()
	for _, r := range routes() {
		t.Run(r.Name, func(t *testing.T) {
			t.Parallel()
			m, _ := r.Open(t)
			s := session.New(m)
			imported(t, s, foreign, 6, 0)
			imported(t, s, foreign, 0, 6)
			once := export(t, s, "s")
			other := session.New(sagetest.OpenWith(t, r.Config(t, t.TempDir()), drivers()))
			imported(t, other, once, 6, 0)
			imported(t, other, foreign, 0, 6) // known by their IDs
			twice := export(t, other, "s")
			if diff := cmp.Diff(once, twice); diff != "" {
				t.Errorf("the second export is another one:\n%s", diff)
			}
			for i, want := range strings.Split(strings.TrimSpace(foreign), "\n") {
				got := strings.Split(strings.TrimSpace(twice), "\n")[i]
				if diff := cmp.Diff(meaning(t, want), meaning(t, got)); diff != "" {
					t.Errorf("line %d means something else:\n%s", i+1, diff)
				}
			}
		})
	}
}

func TestImportEndsNothingThatGoesOn(t *testing.T) {
	t.Parallel()
	ctx, m := t.Context(), sagetest.Open(t)
	s := session.New(m)
	must(t, s.Start(ctx, session.State{SessionID: "s", Context: map[string]any{"goal": "x"}}))
	imported(t, s, foreign, 6, 0)
	st := value[session.State](t)(s.Load(ctx, "s"))
	if !st.EndedAt.IsZero() || st.Context["goal"] != "x" {
		t.Errorf("the session that goes on is %+v", st)
	}
	value[uint64](t)(s.Append(ctx, "s", session.Event{Method: "app.step"}))

	other := strings.ReplaceAll(foreign, `"session_id":"s"`, `"session_id":"done"`)
	head, tail := other[:strings.Index(other, `{"jsonrpc":"2.0","method":"session.stop"`)], other
	imported(t, s, head, 5, 0)
	if st := value[session.State](t)(s.Load(ctx, "done")); !st.EndedAt.IsZero() {
		t.Errorf("half of a log has ended at %v", st.EndedAt)
	}
	imported(t, s, tail, 1, 5)
	if st := value[session.State](t)(s.Load(ctx, "done")); !st.EndedAt.Equal(time.Date(2026, 1, 2, 3, 4, 8, 0, time.UTC)) {
		t.Errorf("the whole log has ended at %v", st.EndedAt)
	}
	_, err := s.Append(ctx, "done", session.Event{Method: "app.step"})
	wantIs(t, err, tiers.ErrSessionEnded, "append to what has ended elsewhere")
	value[uint64](t)(s.Resume(ctx, "done", session.Event{Method: "app.step"}))
}

// TestNoImportLetsASessionGoOnThatWasEndedHere: only what came by imports alone goes on when
// its log does.
func TestNoImportLetsASessionGoOnThatWasEndedHere(t *testing.T) {
	t.Parallel()
	ctx, s := t.Context(), session.New(sagetest.Open(t))
	const another = `{"jsonrpc":"2.0","method":"app.step","params":{"session_id":"s","n":9}}` + "\n"
	imported(t, s, foreign, 6, 0)
	imported(t, s, another, 1, 0)
	if info := value[session.Info](t)(s.Info(ctx, "s")); !info.EndedAt.IsZero() {
		t.Errorf("a log that goes on after its session.stop has ended at %v", info.EndedAt)
	}
	stop := strings.Replace(foreign[strings.LastIndex(foreign[:len(foreign)-1], "\n")+1:], "03:04:08", "03:05:08", 1)
	if !strings.Contains(stop, "session.stop") {
		t.Fatalf("the last line is %s", stop)
	}
	imported(t, s, stop, 1, 0)
	was := value[session.Info](t)(s.Info(ctx, "s")).EndedAt
	must(t, s.End(ctx, "s"))
	imported(t, s, strings.Replace(another, "9", "10", 1), 1, 0)
	info := value[session.Info](t)(s.Info(ctx, "s"))
	if info.EndedAt.IsZero() || !info.EndedAt.Equal(was) || info.Events != 9 {
		t.Errorf("it is %+v, and had ended at %v", info, was)
	}
}

func TestDamagedLinesAreToldAndTheOthersImported(t *testing.T) {
	t.Parallel()
	good := strings.Split(strings.TrimSpace(foreign), "\n")
	for _, c := range []struct {
		why  string
		line string
		is   error
	}{
		{"a line that was cut off", good[1][:40], tiers.ErrCorrupt},
		{"no JSON", "hello", tiers.ErrCorrupt},
		{"a list", "[1]", tiers.ErrCorrupt},
		{"null", "null", tiers.ErrCorrupt},
		{"no notification", `{"method":"x","params":{"session_id":"s"}}`, tiers.ErrCorrupt},
		{"no method", `{"jsonrpc":"2.0","params":{"session_id":"s"}}`, tiers.ErrCorrupt},
		{"no session", `{"jsonrpc":"2.0","method":"x","params":{}}`, tiers.ErrCorrupt},
		{"a member twice", `{"jsonrpc":"2.0","method":"x","params":{"session_id":"s","a":1,"a":2}}`, tiers.ErrCorrupt},
		{"a member twice, deep inside", `{"jsonrpc":"2.0","method":"x","params":{"session_id":"s","a":[{"b":1,"b":2}]}}`, tiers.ErrCorrupt},
		{"too deep", `{"jsonrpc":"2.0","method":"x","params":{"session_id":"s","a":` + strings.Repeat("[", 1001) + strings.Repeat("]", 1001) + `}}`, tiers.ErrCorrupt},
		{"two values", good[1] + good[1], tiers.ErrCorrupt},
		{"an id too long for a key", `{"jsonrpc":"2.0","method":"x","params":{"session_id":"` + strings.Repeat("s", 1100) + `"}}`, tiers.ErrKey},
		{"not UTF-8", "{\"jsonrpc\":\"2.0\",\"method\":\"x\",\"params\":{\"session_id\":\"s\",\"a\":\"\xff\"}}", tiers.ErrCorrupt},
		{"longer than a line may be", `{"jsonrpc":"2.0","method":"x","params":{"session_id":"s","a":"` + strings.Repeat("x", 18<<20) + `"}}`, tiers.ErrTooLarge},
	} {
		t.Run(c.why, func(t *testing.T) {
			t.Parallel()
			s := session.New(sagetest.Open(t))
			text := good[0] + "\n\r\n" + c.line + "\n" + good[4] + "\n"
			added, _, err := s.Import(t.Context(), strings.NewReader(text))
			wantIs(t, err, c.is, "the import")
			line, ok := errors.AsType[*session.LineError](err)
			if added != 2 || !ok || line.Line != 3 || strings.ContainsAny(err.Error(), "\n%") {
				t.Errorf("%d lines were added, error %v", added, err)
			}
		})
	}
}

func TestLogFileThatWasCutOffGoesOnOnALineOfItsOwn(t *testing.T) {
	t.Parallel()
	s := session.New(sagetest.Open(t))
	path := filepath.Join(t.TempDir(), "s.jsonl")
	must(t, os.WriteFile(path, []byte(foreign[:len(foreign)-30]), 0o600))
	added, _, err := s.Import(t.Context(), strings.NewReader(foreign[:len(foreign)-30]))
	if line, ok := errors.AsType[*session.LineError](err); added != 5 || !ok || line.Line != 6 {
		t.Fatalf("%d lines, error %v", added, err)
	}
	for i := range 2 {
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		must(t, err)
		must(t, session.AppendLines(f, session.Event{ID: fmt.Sprint(i), Session: "s", Method: "app.step"}))
		must(t, f.Close())
	}
	b, err := os.ReadFile(path)
	must(t, err)
	var got []string
	var bad []int
	for line, err := range session.Lines(bytes.NewReader(b)) {
		if err != nil {
			bad = append(bad, line.Number)
			continue
		}
		got = append(got, line.Event.Method)
	}
	if !slices.Equal(bad, []int{6}) || len(got) != 7 || got[5] != "app.step" || got[6] != "app.step" {
		t.Errorf("bad lines %v, methods %q", bad, got)
	}
}

func TestEventAsJSONIsANotification(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.FixedZone("", 3600))
	for _, c := range []struct {
		why  string
		e    session.Event
		want string
	}{
		{
			"session, turn and time are params",
			session.Event{Session: "s", Turn: "t", Method: "m", Time: at, Params: json.RawMessage(`{"b":1, "a":2}`)},
			`{"jsonrpc":"2.0","method":"m","params":{"session_id":"s","turn_id":"t","b":1,"a":2,"timestamp":"2026-01-02T03:04:05+01:00"}}`,
		},
		{"no params where there is nothing to say", session.Event{Method: "m"}, `{"jsonrpc":"2.0","method":"m"}`},
		{
			"what is there stays as it is",
			session.Event{Session: "s", Method: "m", Params: json.RawMessage(`{"session_id":7}`)},
			`{"jsonrpc":"2.0","method":"m","params":{"session_id":7},"sagestore":{"session":"s"}}`,
		},
		{
			"a list has no room",
			session.Event{ID: "i", Seq: 2, Session: "s", Method: "m", Received: time.UnixMilli(5), Time: at, Params: json.RawMessage(`[1, 2]`)},
			`{"jsonrpc":"2.0","method":"m","params":[1,2],"sagestore":{"id":"i","seq":2,"received":5,"session":"s","time":"2026-01-02T03:04:05+01:00"}}`,
		},
		{
			"characters stay",
			session.Event{Session: "a<b>", Method: "m", More: json.RawMessage(`{"id":1}`)},
			`{"jsonrpc":"2.0","method":"m","params":{"session_id":"a<b>"},"id":1}`,
		},
	} {
		t.Run(c.why, func(t *testing.T) {
			t.Parallel()
			b, err := c.e.MarshalJSON()
			must(t, err)
			if string(b) != c.want {
				t.Errorf("got %s\nwant %s", b, c.want)
			}
			var back session.Event
			must(t, back.UnmarshalJSON(b))
			again, err := back.MarshalJSON()
			must(t, err)
			if string(again) != c.want {
				t.Errorf("the second time %s", again)
			}
		})
	}
}

// FuzzLines: whatever is read can be written, and is the same when it is read again.
func FuzzLines(f *testing.F) {
	for line := range strings.Lines(foreign) {
		f.Add([]byte(line))
	}
	f.Add([]byte(`{"jsonrpc":"2.0","method":"m","params":[1],"sagestore":{"session":"s","time":"2026-01-02T03:04:05Z"}}`))
	f.Add([]byte(`{"jsonrpc":"2.0","method":"m","params":{},"sagestore":null}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		for line, err := range session.Lines(bytes.NewReader(text)) {
			if err != nil {
				continue
			}
			one, err := line.Event.MarshalJSON()
			must(t, err)
			for back, err := range session.Lines(bytes.NewReader(one)) {
				must(t, err)
				if diff := cmp.Diff(line.Event, back.Event, cmp.Comparer(func(a, b json.RawMessage) bool { return string(a) == string(b) })); diff != "" {
					t.Errorf("%s is read again as another event:\n%s", one, diff)
				}
			}
		}
	})
}
