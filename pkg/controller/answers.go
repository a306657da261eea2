package controller

import "context"

type onlyMetadataKey struct{}

// OnlyMetadata returns a context for writes of whose answers only the metadata is read, such as the resource
// version: the API server leaves the rest out. The object that a typed client of an instance returns is then
// otherwise empty, so it must not be kept or written. Other clients, and the API server where it cannot do that,
// answer with the whole object.
func OnlyMetadata(ctx context.Context) context.Context {
	return context.WithValue(ctx, onlyMetadataKey{}, true)
}

// WantsOnlyMetadata reports whether a context is from [OnlyMetadata].
func WantsOnlyMetadata(ctx context.Context) bool {
	return ctx.Value(onlyMetadataKey{}) != nil
}
