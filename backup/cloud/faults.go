package cloud

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"gocloud.dev/gcerrors"
	"google.golang.org/api/googleapi"

	"github.com/sagestore/sagestore/internal/conflict"
	"github.com/sagestore/sagestore/tiers"
)

// queries are the parameters, and the credentials, of URLs in a text: an error of a
// transport repeats the URL, and that of Azure is signed in its parameters.
var queries = regexp.MustCompile(`://[^\s/"'@]*@|\?[^\s"']*=[^\s"']*`)

// faults turns the errors of a service into those of package tiers. The texts stay, but
// for what may be secret; the errors themselves do not, as their texts would.
type faults struct {
	scheme string
	secret string // the parameters of the URL
}

// read answers the error of what changes nothing at the service.
func (f faults) read(ctx context.Context, err error) error {
	kind := tiers.ErrUnavailable
	switch gcerrors.Code(err) {
	case gcerrors.OK:
		return nil
	case gcerrors.NotFound:
		if absent(err) {
			return tiers.ErrNotFound
		}
	case gcerrors.Unimplemented:
		kind = tiers.ErrUnsupported
	case gcerrors.AlreadyExists, gcerrors.FailedPrecondition:
		kind = conflict.Errorf("the service refuses to change what is there") // such as an object that is locked
	default: // what the service has not done; the text says why
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if status(err) == http.StatusRequestEntityTooLarge {
		kind = tiers.ErrTooLarge
	}
	return f.as(kind, err)
}

// write answers the error of what is to change something: without an answer nobody
// knows whether it has.
func (f faults) write(ctx context.Context, err error) error {
	if unanswered(err) {
		kind := tiers.ErrCommitUnknown
		if ctx.Err() != nil {
			return fmt.Errorf("%w: %w", kind, context.Cause(ctx))
		}
		return f.as(kind, err)
	}
	return f.read(ctx, err)
}

// refused answers the error of opening a bucket.
func (f faults) refused(ctx context.Context, err error) error {
	if errors.Is(context.Cause(ctx), context.Canceled) {
		return context.Cause(ctx)
	}
	kind := tiers.ErrUnavailable
	if gcerrors.Code(err) == gcerrors.InvalidArgument {
		kind = tiers.ErrUnsupported
	}
	return f.as(kind, err)
}

func (f faults) as(kind, err error) error {
	text := err.Error()
	if f.secret != "" {
		text = strings.ReplaceAll(text, f.secret, "...")
	}
	text = queries.ReplaceAllStringFunc(text, func(found string) string {
		if found[0] == '?' {
			return "?..."
		}
		return "://"
	})
	words := slices.DeleteFunc(strings.Fields(text), func(w string) bool { return strings.Trim(w, "-") == "" }) // rules between lines
	return tiers.Hint(fmt.Errorf("%w: %s", kind, strings.Join(words, " ")), whereCredentials(f.scheme))
}

// unanswered tells that a request may have been carried out although it failed.
func unanswered(err error) bool {
	if err == nil {
		return false
	}
	switch gcerrors.Code(err) {
	case gcerrors.Unknown, gcerrors.Internal, gcerrors.Canceled, gcerrors.DeadlineExceeded:
	default:
		return false
	}
	if s := status(err); 400 <= s && s < 500 {
		return false
	}
	var dial *net.OpError
	return !errors.As(err, &dial) || dial.Op != "dial"
}

// absent tells of an error that the drivers take for that of an absent object whether it
// is: they take it, too, that we are not let in, and that there is no such host.
func absent(err error) bool {
	switch status(err) {
	case http.StatusUnauthorized, http.StatusForbidden:
		return false
	}
	var host *net.DNSError
	return !errors.As(err, &host)
}

// status answers the HTTP status that a service has answered, or 0.
func status(err error) int {
	var (
		amazon interface{ HTTPStatusCode() int }
		azure  *azcore.ResponseError
		google *googleapi.Error
	)
	switch {
	case errors.As(err, &amazon):
		return amazon.HTTPStatusCode()
	case errors.As(err, &azure):
		return azure.StatusCode
	case errors.As(err, &google):
		return google.Code
	}
	return 0
}

// whereCredentials says where the client of a service looks for its credentials.
func whereCredentials(scheme string) string {
	switch scheme {
	case "s3":
		return "credentials are looked for in AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, AWS_PROFILE, ~/.aws and the role of the machine; " +
			"the region in AWS_REGION, ~/.aws and the parameter region"
	case "gs":
		return "credentials are looked for in GOOGLE_APPLICATION_CREDENTIALS, those of gcloud auth application-default login, and the machine's service account"
	case "azblob":
		return "credentials are looked for in AZURE_STORAGE_ACCOUNT with AZURE_STORAGE_KEY or AZURE_STORAGE_SAS_TOKEN, " +
			"AZURE_STORAGE_CONNECTION_STRING, and the identity of az login or the machine"
	}
	return ""
}

// fail says what could not be done.
func fail(op, name string, err error) error {
	if err == nil {
		return nil
	}
	if name != "" {
		op = fmt.Sprintf("%s %.300s", op, name)
	}
	return tiers.Fail(op, "", tiers.Key{}, err)
}
