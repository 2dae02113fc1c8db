package file_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/sagestore/sagestore/tiers"
	"github.com/sagestore/sagestore/tiers/file"
)

func ExampleOpen() {
	dir, err := os.MkdirTemp("", "sagestore-")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = os.RemoveAll(dir) }()
	ctx := context.Background()
	t, err := file.Open(ctx, file.Config{BasePath: dir})
	if err != nil {
		fmt.Println(err)
		return
	}
	r := tiers.Record{
		Key:   tiers.Key{Category: "config", Name: "settings"},
		Value: []byte(`{"theme":"dark"}`), Codec: "json", Schema: 1,
	}
	if _, err = t.Save(ctx, r, tiers.Cond{}); err == nil {
		b, _ := os.ReadFile(filepath.Join(dir, "config", "settings.json"))
		fmt.Printf("%s", b)
	}
	if err := errors.Join(err, t.Close(ctx)); err != nil {
		fmt.Println(err)
	}
	// Output:
	// {
	//   "theme": "dark"
	// }
}

func ExampleDriver() {
	d := file.Driver()
	fmt.Println(d.Tier, d.Name)
	// Output: file file
}
