package backup

import (
	"bytes"
	"errors"
	"fmt"

	"filippo.io/age"

	"github.com/sagestore/sagestore/tiers"
)

// checkIdentities refuses to encrypt to recipients of whom none of the identities is:
// what is written could not be opened by those who think they can. Without identities
// they are kept elsewhere, and there is nothing to compare with.
func (r *Repo) checkIdentities() error {
	if len(r.recipients) == 0 || len(r.identities) == 0 {
		return nil
	}
	var sealed bytes.Buffer
	w, err := age.Encrypt(&sealed, r.recipients...)
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		return fmt.Errorf("encrypt: %w", err)
	}
	_, err = age.Decrypt(&sealed, r.identities...)
	if _, none := errors.AsType[*age.NoIdentityMatchError](err); none {
		return tiers.Hint(fmt.Errorf("%w: no identity opens what is encrypted to the recipients, so the backup could not be restored with them", ErrKey),
			"add the public key of an identity to backup.recipients (age-keygen -y shows it), or remove backup.identities")
	}
	return err
}
