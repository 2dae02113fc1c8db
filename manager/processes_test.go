package manager_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/sagestore/sagestore/config"
	"github.com/sagestore/sagestore/manager"
	"github.com/sagestore/sagestore/sagetest"
	"github.com/sagestore/sagestore/tiers"
)

// other is this test binary as another process, which does one line of work at
// a time; see obey.
type other struct {
	t   testing.TB
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

func startOther(t testing.TB, dir string) *other {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), "SAGESTORE_TEST_CHILD=obey", "SAGESTORE_TEST_DIR="+dir)
	cmd.Stderr = os.Stderr
	in := value[io.WriteCloser](t)(cmd.StdinPipe())
	out := value[io.ReadCloser](t)(cmd.StdoutPipe())
	must(t, cmd.Start())
	o := &other{t: t, cmd: cmd, in: in, out: bufio.NewReader(out)}
	o.do("ready")
	return o
}

// do gives one order and answers what came of it.
func (o *other) do(order string) string {
	o.t.Helper()
	if _, err := io.WriteString(o.in, order+"\n"); err != nil {
		o.t.Fatal(err)
	}
	line, err := o.out.ReadString('\n')
	if err != nil {
		o.t.Fatalf("%s: %v", order, err)
	}
	return strings.TrimSpace(line)
}

// end lets it close its manager and waits.
func (o *other) end() {
	o.t.Helper()
	must(o.t, o.in.Close())
	must(o.t, o.cmd.Wait())
}

func sharedConfig(dir string) *config.Config {
	return &config.Config{DataDir: dir, Categories: map[string]config.Category{
		"app.parts": {Tier: "database", TTL: config.UntilSessionEnds},
	}}
}

// obey is the other process: orders are "save CATEGORY KEY", "load CATEGORY
// KEY", "end ID" and "job".
func obey(ctx context.Context) error {
	m, err := manager.Open(ctx, sharedConfig(os.Getenv("SAGESTORE_TEST_DIR")), all())
	if err != nil {
		return err
	}
	ran := make(chan struct{}, 1)
	err = m.Background("job", 10*time.Millisecond, func(context.Context) error {
		select {
		case ran <- struct{}{}:
		default:
		}
		return nil
	}, manager.OnePerStore())
	if err != nil {
		return err
	}
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		words := append(strings.Fields(lines.Text()), "", "")
		var v string
		switch words[0] {
		case "save":
			err = m.Save(ctx, words[1], words[2], "v")
		case "load":
			err = m.Load(ctx, words[1], words[2], &v)
		case "end":
			err = m.EndSession(ctx, words[1])
		case "job":
			select {
			case <-ran:
				err = nil
			case <-time.After(200 * time.Millisecond):
				err = errors.New("idle")
			}
		}
		answer := "ok"
		switch {
		case errors.Is(err, tiers.ErrNotFound):
			answer = "not found"
		case errors.Is(err, tiers.ErrSessionEnded):
			answer = "ended"
		case err != nil:
			answer = strings.ReplaceAll(err.Error(), "\n", " ")
		}
		if _, err := io.WriteString(os.Stdout, answer+"\n"); err != nil {
			return err
		}
	}
	return m.Close(ctx)
}

// soon polls for what another process does in its own time.
func soon(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for deadline := tiers.SystemClock().Now().Add(20 * time.Second); !ok(); time.Sleep(10 * time.Millisecond) {
		if tiers.SystemClock().Now().After(deadline) {
			t.Fatalf("not within 20 s: %s", what)
		}
	}
}

func TestAnyProcessEndsASessionWhole(t *testing.T) {
	t.Parallel()
	ctx, dir := t.Context(), t.TempDir()
	m := value[*manager.Manager](t)(manager.Open(ctx, sharedConfig(dir), all()))
	defer closeNow(t, m)
	o := startOther(t, dir)
	for _, order := range []string{"save session.context s/a", "save app.parts s/a", "save session.context s2/a"} {
		if got := o.do(order); got != "ok" {
			t.Fatalf("%s: %s", order, got)
		}
	}
	must(t, m.Save(ctx, "session.context", "s/b", "v"))
	must(t, m.EndSession(ctx, "s"))

	var v string
	wantError(t, m.Load(ctx, "app.parts", "s/a", &v), tiers.ErrNotFound, "the other's record in the database")
	wantError(t, m.Load(ctx, "session.context", "s/b", &v), tiers.ErrNotFound, "this process's record in memory")
	soon(t, "the other process drops what it holds in memory", func() bool { return o.do("load session.context s/a") == "not found" })
	soon(t, "the other process refuses saves", func() bool { return o.do("save app.parts s/late") == "ended" })
	soon(t, "what the other process saved before it learned of the end goes too", func() bool {
		return errors.Is(m.Load(ctx, "app.parts", "s/late", &v), tiers.ErrNotFound)
	})
	if got := o.do("load session.context s2/a"); got != "ok" {
		t.Errorf("another session: %s", got)
	}
	if got := o.do("end s2"); got != "ok" {
		t.Errorf("end: %s", got)
	}
	o.end()
	if got := sessionsOf(t, m); len(got) != 0 {
		t.Errorf("sessions: %v", got)
	}
}

func TestProcessThatDoesNotKnowACategoryEndsItsSessionsToo(t *testing.T) {
	t.Parallel()
	ctx, dir := t.Context(), t.TempDir()
	m := value[*manager.Manager](t)(manager.Open(ctx, sharedConfig(dir), all()))
	must(t, m.Save(ctx, "app.parts", "s/a", "v"))
	closeNow(t, m)
	m = openDir(t, dir) // without app.parts
	must(t, m.EndSession(ctx, "s"))
	closeNow(t, m)
	m = value[*manager.Manager](t)(manager.Open(ctx, sharedConfig(dir), all()))
	defer closeNow(t, m)
	var v string
	wantError(t, m.Load(ctx, "app.parts", "s/a", &v), tiers.ErrNotFound, "its record")
	wantError(t, m.Save(ctx, "app.parts", "s/a", "v"), tiers.ErrSessionEnded, "a save into it")
}

func TestOneProcessOwnsAJobUntilItGoes(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first := startOther(t, dir)
	soon(t, "the first process runs the job", func() bool { return first.do("job") == "ok" })
	second := startOther(t, dir)
	if got := second.do("job"); got != "idle" {
		t.Errorf("the second process beside it: %s", got)
	}
	must(t, first.cmd.Process.Kill())
	_ = first.cmd.Wait() // it was killed
	soon(t, "the second process takes over", func() bool { return second.do("job") == "ok" })
	second.end()
}

func TestSessionWhoseProcessDiedWhileEndingItIsFinished(t *testing.T) {
	t.Parallel()
	ctx, dir := t.Context(), t.TempDir()
	broken := sagetest.Failing(all(), func(op string, k tiers.Key) error {
		if op == "delete" && k.Category == "app.parts" {
			return tiers.ErrUnavailable // as if it died here
		}
		return nil
	})
	m := value[*manager.Manager](t)(manager.Open(ctx, sharedConfig(dir), broken))
	must(t, m.Save(ctx, "app.parts", "s/a", "v"))
	must(t, m.Save(ctx, "app.parts", "kept/a", "v"))
	wantError(t, m.EndSession(ctx, "s"), tiers.ErrUnavailable, "end")
	closeNow(t, m)

	clock := sagetest.NewClock(tiers.SystemClock().Now())
	m = value[*manager.Manager](t)(manager.Open(ctx, sharedConfig(dir), all(), manager.WithClock(clock)))
	defer closeNow(t, m)
	var v string
	must(t, m.Load(ctx, "app.parts", "s/a", &v)) // left behind
	soon(t, "the background work removes it", func() bool {
		clock.Advance(5 * time.Second)
		return errors.Is(m.Load(ctx, "app.parts", "s/a", &v), tiers.ErrNotFound)
	})
	must(t, m.Load(ctx, "app.parts", "kept/a", &v))
}
