package backup

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"strconv"
	"time"

	"github.com/sagestore/sagestore/tiers"
)

// What a notice is about.
const (
	EventSucceeded = "backup_succeeded"
	EventFailed    = "backup_failed"
	EventRefused   = "prune_refused" // the backup is good, and no earlier one was removed
)

// Notice is what is told about a run, as JSON. It holds no secret, no key and no
// value.
type Notice struct {
	Event   string    `json:"event"`
	Host    string    `json:"host,omitempty"`
	Backup  string    `json:"backup,omitempty"` // id
	Due     time.Time `json:"due"`
	Try     int       `json:"try"`
	Began   time.Time `json:"began"`
	Ended   time.Time `json:"ended"`
	Seconds float64   `json:"seconds"`
	Bytes   int64     `json:"bytes"`
	Stored  int64     `json:"stored"`
	Records int64     `json:"records"`
	Next    time.Time `json:"next,omitzero"`
	Error   string    `json:"error,omitempty"`
}

// NoticeOf answers the notice of an outcome; m is the backup that was made, if any.
func NoticeOf(o Outcome, m *Manifest, r Report) Notice {
	n := Notice{
		Event: EventSucceeded, Backup: m.ID, Due: o.Run.UTC(), Try: o.Try, Began: o.Began.UTC(), Ended: o.Ended.UTC(),
		Seconds: o.Ended.Sub(o.Began).Seconds(), Bytes: m.Bytes(), Stored: m.Stored(), Records: r.Records, Next: o.Next.UTC(),
	}
	n.Host, _ = os.Hostname() // a notice without it is better than none
	if o.Err != nil {
		n.Event, n.Error = EventFailed, tiers.Keyless(o.Err)
	}
	if errors.Is(o.Err, ErrRefused) {
		n.Event = EventRefused
	}
	return n
}

// Webhook answers what posts a notice as JSON to a URL. An answer other than 2xx is
// an error, and so is a redirection. Errors name the host only, since the rest of
// the URL may be a secret.
func Webhook(to string) func(ctx context.Context, n Notice) error {
	client := &http.Client{
		Transport:     ownTransport(),
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Timeout:       hookLimit,
	}
	return func(ctx context.Context, n Notice) error {
		host := "the webhook"
		if u, err := url.Parse(to); err == nil && u.Host != "" {
			host = "the webhook at " + u.Host
		}
		body, err := json.Marshal(n)
		if err != nil {
			return err
		}
		request, err := http.NewRequestWithContext(ctx, http.MethodPost, to, bytes.NewReader(body))
		if err != nil {
			return fmt.Errorf("%s is no URL", host)
		}
		request.Close = true // the next notice is hours away
		request.Header.Set("Content-Type", "application/json")
		request.Header.Set("User-Agent", "sagestore")
		answer, err := client.Do(request)
		if err != nil {
			if failed, ok := errors.AsType[*url.Error](err); ok {
				err = failed.Err // which does not repeat the URL
			}
			return fmt.Errorf("%s: %w", host, err)
		}
		defer func() { _ = answer.Body.Close() }()                    // it was only read
		_, _ = io.Copy(io.Discard, io.LimitReader(answer.Body, 4096)) // so that the connection ends well
		if answer.StatusCode < 200 || answer.StatusCode > 299 {
			return fmt.Errorf("%s answered %d", host, answer.StatusCode)
		}
		return nil
	}
}

// ownTransport answers one whose connections are not those of the rest of the program, with
// the proxy and whatever else is set for all.
func ownTransport() http.RoundTripper {
	if t, ok := http.DefaultTransport.(*http.Transport); ok {
		return t.Clone()
	}
	return http.DefaultTransport // what the program has put there
}

// Command answers what runs a command for a notice: one line for the shell, or a
// program and its arguments. The notice is its standard input, as JSON, and the
// most important of it are the variables SAGESTORE_EVENT, SAGESTORE_BACKUP,
// SAGESTORE_TRY and SAGESTORE_ERROR. What it prints is dropped.
func Command(command []string) func(ctx context.Context, n Notice) error {
	return func(ctx context.Context, n Notice) error {
		if len(command) == 0 {
			return tiers.Hint(errors.New("there is no command to run"), "name one under backup.on_success or backup.on_failure")
		}
		body, err := json.Marshal(n)
		if err != nil {
			return err
		}
		if len(command) == 1 {
			command = []string{"/bin/sh", "-c", command[0]}
		}
		c := exec.CommandContext(ctx, command[0], command[1:]...) //nolint:gosec // the configuration says so
		c.Stdin = bytes.NewReader(body)
		c.Env = append(os.Environ(), "SAGESTORE_EVENT="+n.Event, "SAGESTORE_BACKUP="+n.Backup,
			"SAGESTORE_TRY="+strconv.Itoa(n.Try), "SAGESTORE_ERROR="+n.Error)
		c.WaitDelay = time.Second // for what it has started and left behind
		if err := c.Run(); err != nil {
			return fmt.Errorf("the command that is told about backups: %w", err)
		}
		return nil
	}
}
