package controller

import "context"

type onlyMetadataKey struct{}

// OnlyMetadata returns a context for writes of single objects of whose answers only the metadata is read, such as
// the resource version, or nothing: the API server leaves the rest out. The object that a typed client of an instance
// returns is then otherwise empty, so it must not be kept or written. An update that names a resource version stores
// what was sent: with the metadata of the answer, that can be kept. Other clients, and an API server that cannot do
// that, answer with the whole object. It is not for collections, whose deletion has a list as its answer.
func OnlyMetadata(ctx context.Context) context.Context {
	return context.WithValue(ctx, onlyMetadataKey{}, true)
}

// WantsOnlyMetadata reports whether a context is from [OnlyMetadata].
func WantsOnlyMetadata(ctx context.Context) bool {
	return ctx.Value(onlyMetadataKey{}) != nil
}
