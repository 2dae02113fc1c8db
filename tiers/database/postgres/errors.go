package postgres

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/sagestore/sagestore/internal/engine"
	"github.com/sagestore/sagestore/tiers"
)

// tierName is what errors call this tier.
const tierName = "database"

// The SQLSTATEs that matter here, https://www.postgresql.org/docs/current/errcodes-appendix.html
const (
	codeSerialization  = "40001"
	codeDeadlock       = "40P01"
	codeLockTimeout    = "55P03"
	codeCanceled       = "57014"
	codeNoPrepared     = "26000"
	codeDoubledName    = "42P05"
	codeReadOnly       = "25006"
	codeNoPrivilege    = "42501"
	codeNoDatabase     = "3D000"
	codeBadPassword    = "28P01"
	codeBadAccount     = "28000"
	codeTooMany        = "53300"
	codeDiskFull       = "53100"
	codeProgramLimit   = "54000"
	codeNoTable        = "42P01"
	codeNoSchema       = "3F000"
	codeUnknownSetting = "42704"
	codeUnsupported    = "0A000"
	codeProtocol       = "08P01" // PgBouncer's word for it
	codeIdle           = "25P03" // a transaction did nothing for too long
	codeTooLong        = "25P04" // or took too long
)

// codeOf answers the SQLSTATE of an error of the server's, "" for any other error.
func codeOf(err error) string {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		return e.Code
	}
	return ""
}

// ended tells whether the server ended the connection, or never answered on it.
func ended(err error) bool {
	if err == nil || errors.Is(err, errShared) { // the latter is our own
		return false
	}
	code := codeOf(err)
	return code == "" || fatal(code)
}

// fatal tells whether the server ends the connection with an error of that code.
func fatal(code string) bool {
	// Class 57P: an operator or a crash; class 08: the connection itself.
	return strings.HasPrefix(code, "57P") || strings.HasPrefix(code, "08") || code == codeIdle || code == codeTooLong
}

// dropped tells whether a connection ended that was there before, so that the call may
// go better on a new one.
func dropped(err error) bool {
	if err == nil {
		return false
	}
	if connect := (*pgconn.ConnectError)(nil); errors.As(err, &connect) {
		return false
	}
	if code := codeOf(err); code != "" {
		return fatal(code)
	}
	var network net.Error
	return errors.As(err, &network) || lost(err)
}

// plain gives an error of the server's the sentinel and the hint that fit. What has
// one stays as it is.
func (t *Tier) plain(err error) error {
	if err == nil {
		return nil
	}
	for _, known := range []error{
		tiers.ErrCommitUnknown, tiers.ErrUnavailable, tiers.ErrFull, tiers.ErrCorrupt, tiers.ErrReadOnly, tiers.ErrTooLarge,
		tiers.ErrUnsupported, tiers.ErrClosed, tiers.ErrSchema, tiers.ErrConflict,
	} {
		if errors.Is(err, known) {
			return err
		}
	}
	if code := codeOf(err); code != "" {
		return ofServer(err, code, t.place, t.schema)
	}
	return ofNetwork(err, t.place)
}

func ofServer(err error, code, place, schema string) error {
	as := func(sentinel error, hint string) error {
		return tiers.Hint(fmt.Errorf("%w: %w", sentinel, err), hint)
	}
	switch code {
	case codeBadPassword, codeBadAccount:
		return as(tiers.ErrUnavailable, "check user, password and sslmode of postgres.url, and pg_hba.conf of "+place)
	case codeNoDatabase:
		return as(tiers.ErrUnavailable, "create the database with createdb, or name another one in postgres.url")
	case codeTooMany:
		return as(tiers.ErrUnavailable, "lower postgres.pool, or raise max_connections of "+place)
	case codeSerialization, codeDeadlock:
		return as(tiers.ErrConflict, "try again")
	case codeLockTimeout:
		return as(tiers.ErrUnavailable, "another process or program holds a lock: see pg_locks of "+place)
	case codeCanceled:
		return as(tiers.ErrUnavailable, "the server ended a statement that took longer than statement_timeout")
	case codeNoPrepared, codeDoubledName:
		return as(tiers.ErrUnavailable, "a pooler stands in between that does not keep prepared statements: set postgres.pooler: true")
	case codeUnknownSetting, codeUnsupported, codeProtocol:
		if strings.Contains(err.Error(), "startup parameter") {
			return as(tiers.ErrUnavailable, "a pooler stands in between that takes no settings: set postgres.pooler: true")
		}
	case codeReadOnly:
		return as(tiers.ErrReadOnly, "name the primary in postgres.url, not a replica or a read-only account")
	case codeNoPrivilege:
		return as(tiers.ErrReadOnly, "let the account own the schema "+schema+": ALTER SCHEMA "+schema+" OWNER TO ...; to make it takes CREATE on the database")
	case codeIdle, codeTooLong:
		return as(tiers.ErrUnavailable, "the server ended a transaction that took too long: try again")
	case codeDiskFull:
		return as(tiers.ErrFull, "make room on the disk of "+place)
	case codeProgramLimit:
		return as(tiers.ErrTooLarge, "save smaller values")
	case codeNoTable, codeNoSchema:
		return as(tiers.ErrCorrupt, "the tables of schema "+schema+" are gone: open the store again, or restore a backup")
	}
	switch code[:2] {
	case "08", "57": // what came over this connection is lost
		return as(tiers.ErrUnavailable, "the server of "+place+" is stopping or starting: try again")
	case "53":
		return as(tiers.ErrUnavailable, "the server of "+place+" is short of resources")
	case "58", "XX":
		return as(tiers.ErrUnavailable, "look into the log of the server of "+place)
	}
	return err
}

// ofNetwork is about everything but what the server says.
func ofNetwork(err error, place string) error {
	as := func(hint string) error { return tiers.Hint(fmt.Errorf("%w: %w", tiers.ErrUnavailable, err), hint) }
	if unknown := (x509.UnknownAuthorityError{}); errors.As(err, &unknown) {
		return as("the certificate of the server is of an unknown authority: name its file with sslrootcert=PATH in postgres.url")
	}
	if name := (x509.HostnameError{}); errors.As(err, &name) {
		return as("the certificate of the server is for another name: use that one in postgres.url")
	}
	if bad := (x509.CertificateInvalidError{}); errors.As(err, &bad) {
		return as("the certificate of the server is not valid: renew it")
	}
	if verify := (*tls.CertificateVerificationError)(nil); errors.As(err, &verify) {
		return as("the certificate of the server can't be verified: check sslrootcert in postgres.url")
	}
	if connect := (*pgconn.ConnectError)(nil); errors.As(err, &connect) {
		if strings.Contains(err.Error(), "refused TLS") && onlyTLS(connect.Config) {
			return as("the server of " + place + " offers no TLS: check sslmode, and ssl of the server")
		}
		return as("check that the server of " + place + " runs and may be reached from here")
	}
	var network net.Error
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case errors.As(err, &network), pgconn.SafeToRetry(err), errors.Is(err, net.ErrClosed), lost(err):
		return as("the connection to " + place + " was lost: try again")
	}
	return err
}

// onlyTLS tells that the URL wants TLS. With sslmode=prefer, or none, that it is refused is no
// reason.
func onlyTLS(c *pgconn.Config) bool {
	return !slices.ContainsFunc(c.Fallbacks, func(f *pgconn.FallbackConfig) bool { return f.TLSConfig == nil })
}

// lost tells whether the other end went away in the middle of an answer.
func lost(err error) bool {
	text := err.Error()
	return strings.Contains(text, "unexpected EOF") || strings.Contains(text, "conn closed") || strings.Contains(text, "connection reset")
}

// fail completes an error with operation and key.
func (t *Tier) fail(op string, k tiers.Key, err error) error {
	if err == nil {
		return nil
	}
	return tiers.Fail(op, tierName, k, t.plain(err))
}

// failed is fail, and counts what is not an answer.
func (t *Tier) failed(op string, k tiers.Key, err error) error {
	if err != nil && !engine.IsAnswer(err) {
		t.failures.Add(1)
	}
	return t.fail(op, k, err)
}

// left answers why the context ended, where that is why err came.
func left(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}
