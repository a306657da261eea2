// Package wire decodes what is watched without making what caches do not keep, or have already.
//
// managedFields are half of many objects, and no cache keeps them. The pods of a template differ in little: a name, a
// node, a status. Decoded one by one, each brings containers, resources, volumes, labels and owners of its own, which
// are most of the work of decoding and most of the garbage, since a cache shrinks them and shares them with other pods
// anyway. So they are looked up by their bytes first.
//
//  1. Of metadata-only objects, all but managedFields is decoded.
//  2. A pod is divided by the fields of its message. What pods of one template have in common, which is all of the spec
//     but the node and the hostname, and of the metadata the namespace, generateName, labels, annotations, owners and
//     finalizers, is looked up and decoded if it is new. The rest is decoded, but for managedFields.
//  3. A part is shrunk when it is decoded. Pods with equal parts have the same memory then, so nobody may change them:
//     a decoded pod carries Options.Mark by which a transform can tell that it has been shrunk.
//  4. The volume with the token of the service account has another name in each pod. It is replaced before the part is
//     looked up, if none of it is left in the part once that is shrunk.
//  5. The last few hundred parts are remembered, see table.
//  6. Whatever is not as expected is decoded whole, by the generated code: other kinds, unknown fields, broken bytes,
//     which are reported as they would be without this package. Such a pod has no mark.
//
// Only protobuf is decoded here, and only what is watched, initial lists that are streamed included. Other encodings
// and other requests are served by the usual serializers.
package wire
