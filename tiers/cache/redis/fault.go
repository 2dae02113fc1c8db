package redis

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"

	goredis "github.com/redis/go-redis/v9"

	"github.com/sagestore/sagestore/tiers"
)

// errLeft ends a call that nobody waits for.
var errLeft = errors.New("redis: nobody waits for the answer")

// dialError is a connection that could not be made: nothing was sent.
type dialError struct{ err error }

func (e *dialError) Error() string { return e.err.Error() }
func (e *dialError) Unwrap() error { return e.err }

// setupError is a server that answers and is not one that can be used; an
// operator has to change something.
type setupError struct{ err error }

func (e *setupError) Error() string { return e.err.Error() }
func (e *setupError) Unwrap() error { return e.err }

func isSetup(err error) bool {
	var s *setupError
	return errors.As(err, &s)
}

// refusesUser tells whether the server does not let the user in. Passwords change
// while programs run, so that is an outage like any other.
func refusesUser(err error) bool {
	c := code(err)
	return c == "NOAUTH" || c == "WRONGPASS"
}

// isReply tells whether the server itself answered with this error.
func isReply(err error) bool {
	var e goredis.Error
	return errors.As(err, &e)
}

// code is the word that an error reply begins with. Older servers hide that of
// a command within a script in a sentence.
func code(err error) string {
	var e goredis.Error
	if !errors.As(err, &e) {
		return ""
	}
	text := e.Error()
	word, rest, _ := strings.Cut(text, " ")
	if word != "ERR" {
		return word
	}
	if strings.HasPrefix(rest, "max number of clients") {
		return "MAXCLIENTS"
	}
	if _, inner, ok := strings.Cut(rest, ": -"); ok {
		inner, _, _ = strings.Cut(inner, " ")
		return inner
	}
	if _, inner, ok := strings.Cut(rest, "@user_script: "); ok {
		for _, known := range []string{"OOM", "READONLY", "MISCONF", "NOREPLICAS", "WRONGTYPE", "NOPERM"} {
			if strings.Contains(inner, known) {
				return known
			}
		}
	}
	return word
}

// isDown tells whether a reply means that the server can't serve anybody.
func isDown(err error) bool {
	switch code(err) {
	case "LOADING", "MASTERDOWN", "CLUSTERDOWN", "BUSY", "NOAUTH", "WRONGPASS", "DENIED", "MAXCLIENTS":
		return true
	}
	return false
}

// refusal turns an error reply into one of package tiers. Whatever the server
// refused, it did not change a record.
func (t *Tier) refusal(err error) error {
	switch c := code(err); c {
	case "WRONGTYPE":
		return tiers.Hint(fmt.Errorf("%w: redis holds another type of value under this key", tiers.ErrCorrupt), corruptHint)
	case "OOM":
		return tiers.Hint(fmt.Errorf("%w: redis is %w: %w", tiers.ErrUnavailable, tiers.ErrFull, err),
			"raise redis maxmemory, or let records expire sooner")
	case "READONLY":
		return tiers.Hint(fmt.Errorf("%w: %w", tiers.ErrUnavailable, err), "the url names a replica, it has to name the primary")
	case "MISCONF":
		return tiers.Hint(fmt.Errorf("%w: %w", tiers.ErrUnavailable, err), "redis can't save its snapshot: look at its disk and its log")
	case "NOPERM":
		return tiers.Hint(fmt.Errorf("%w: %w", tiers.ErrUnavailable, err), permissionHint(t.names))
	case "NOAUTH", "WRONGPASS":
		return tiers.Hint(fmt.Errorf("%w: %w", tiers.ErrUnavailable, err), passwordHint)
	default:
		if isDown(err) || c == "NOREPLICAS" || c == "TRYAGAIN" {
			return fmt.Errorf("%w: %w", tiers.ErrUnavailable, err)
		}
		return fmt.Errorf("redis refused: %w", err)
	}
}

const passwordHint = "check the user and the password in the redis url or options; rotated passwords need a restart of the app"

func permissionHint(n names) string {
	prefix, _, _ := strings.Cut(n.root, "{")
	return fmt.Sprintf("the redis user needs ~%s* and +@read +@write +@scripting +time +info +ping, for near layers &%s* and +publish +subscribe as well", prefix, prefix)
}

// connectionLost tells an end of the connection from a timeout.
func connectionLost(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) ||
		errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

func isDial(err error) bool {
	var d *dialError
	return errors.As(err, &d)
}

func refusedDial(err error) bool { return isDial(err) && errors.Is(err, syscall.ECONNREFUSED) }

func isTimeout(err error) bool {
	return errors.Is(err, os.ErrDeadlineExceeded)
}

// plain leaves of a network error what a reader needs. In particular it hides
// context.DeadlineExceeded, which is about the driver's own limit here and
// must not look like the caller's.
func (t *Tier) plain(err error) error {
	switch {
	case isTimeout(err):
		return fmt.Errorf("%s gave no answer within %s", t.place, t.timeout)
	case connectionLost(err):
		return fmt.Errorf("the connection to %s was lost", t.place)
	}
	return errors.New(err.Error())
}

// tlsFault names what is wrong when the two sides do not agree about TLS or
// about the certificate; nil when it is about something else.
func tlsFault(err error) error {
	var header tls.RecordHeaderError
	var cert *tls.CertificateVerificationError
	var authority x509.UnknownAuthorityError
	switch {
	case errors.As(err, &header):
		return tiers.Hint(errors.New("redis does not speak TLS on this port"), "use redis:// instead of rediss://, or the port for TLS")
	case errors.As(err, &authority):
		return tiers.Hint(fmt.Errorf("redis shows a certificate that can't be verified: %w", err), "name the certificate authority with ca_file")
	case errors.As(err, &cert):
		return tiers.Hint(fmt.Errorf("redis shows a certificate that can't be verified: %w", err),
			"use the name in the certificate, or set server_name")
	}
	return nil
}
