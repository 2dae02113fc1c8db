package transfer

import (
	"fmt"

	"github.com/sagestore/sagestore/internal/halves"
	"github.com/sagestore/sagestore/serializer"
	"github.com/sagestore/sagestore/tiers"
)

// sound tells of JSON that would not come in as it is: a name that an object has
// twice, of which one value would be lost, and half a pair of surrogates, which no
// UTF-8 can say.
func sound(text []byte) error {
	if err := halves.Check(text); err != nil {
		return err
	}
	var v any
	return serializer.JSON().Decode(text, &v)
}

func errTwice(name string) error {
	return fmt.Errorf("%w: the key %q is there twice", tiers.ErrCorrupt, name)
}
