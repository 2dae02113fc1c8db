// Package cloud opens buckets of object stores for package backup.
//
//	b, err := cloud.Open(ctx, "s3://my-bucket/sagestore?region=eu-central-1")
//	if err != nil {
//		return err
//	}
//	defer b.Close()
//	repo, err := backup.Open(b.Unwrap(), options)
//
// # URLs
//
//	s3://BUCKET/PATH           Amazon S3 and what speaks its protocol, see below
//	gs://BUCKET/PATH           Google Cloud Storage
//	azblob://CONTAINER/PATH    Azure Blob Storage
//	file:///PATH               a directory, as backup.Dir keeps one
//	mem://                     memory, gone with the bucket; for tests
//
// Objects are kept below the path, which may be empty. The parameters of a URL are
// those of gocloud.dev, whose drivers do the work; prefix=PATH is another way to give
// the path. A server that speaks the protocol of S3 is opened by
//
//	s3://BUCKET?endpoint=https://HOST&region=us-east-1&use_path_style=true
//
// an emulator of Azure by localemu=true&protocol=http&domain=HOST, one of Google by
// STORAGE_EMULATOR_HOST in the environment.
//
// Each is tested against a server in the test's process that speaks its protocol, and has
// not been run against the service itself.
//
// Credentials are never part of a URL. Each service's own places are looked at, and an
// error names them.
//
// # What it costs
//
// The clients of three clouds are large. A program links them only when it imports this
// package: the sagestore command does, package backup does not.
package cloud
