package takeover

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/pager"
	"k8s.io/utils/ptr"
)

// Reader reads the metadata of all objects of a cache, with the state of the API server at
// a moment after the read began.
type Reader struct {
	Metadata metadata.Interface
}

var errIncomplete = errors.New("the stream ended before all objects were sent")

// streamTime bounds a stream. A server that does not support streaming lists may treat the
// request as an ordinary watch and never mark the end of the initial events.
const streamTime = time.Minute

var errTooLong = fmt.Errorf("the end of the list was not sent within %v", streamTime)

// read streams the objects if the API server can do that, and lists them in pages otherwise. What ends a stream too
// early, such as a proxy that allows connections only so much time, may do so each time.
// A stream takes little memory on both sides.
func (r Reader) read(ctx context.Context, c Cache) (snapshot, error) {
	streaming, cancel := context.WithTimeoutCause(ctx, streamTime, errTooLong)
	defer cancel()
	s, err := r.stream(streaming, c)
	cut := errors.Is(err, errTooLong) || errors.Is(err, errIncomplete)
	if cut || apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) {
		s, err = r.list(ctx, c)
	}
	if err != nil {
		return snapshot{}, fmt.Errorf("reading the metadata of %s: %w", c, err)
	}
	return s, nil
}

func (r Reader) of(c Cache) metadata.ResourceInterface {
	return r.Metadata.Resource(c.Resource).Namespace(c.Filter.Namespace)
}

func selecting(c Cache, o metav1.ListOptions) metav1.ListOptions {
	o.FieldSelector, o.LabelSelector = c.Filter.FieldSelector, c.Filter.LabelSelector
	return o
}

// stream asks for initial events without a resource version, which is a consistent read.
func (r Reader) stream(ctx context.Context, c Cache) (snapshot, error) {
	w, err := r.of(c).Watch(ctx, selecting(c, metav1.ListOptions{
		SendInitialEvents:    ptr.To(true),
		ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan,
		AllowWatchBookmarks:  true,
	}))
	if err != nil {
		return snapshot{}, err
	}
	defer w.Stop()
	s := snapshot{objects: map[string]object{}}
	for {
		select {
		case <-ctx.Done():
			return snapshot{}, context.Cause(ctx)
		case event, open := <-w.ResultChan():
			if !open {
				return snapshot{}, errIncomplete
			}
			if complete, err := s.take(event); complete || err != nil {
				return s, err
			}
		}
	}
}

// take adds the object of an event, and reports whether it was the last one.
func (s *snapshot) take(event watch.Event) (complete bool, err error) {
	if event.Type == watch.Error {
		return false, apierrors.FromObject(event.Object)
	}
	o, err := meta.Accessor(event.Object)
	if err != nil {
		return false, fmt.Errorf("reading an event: %w", err)
	}
	switch event.Type {
	case watch.Bookmark:
		s.version = o.GetResourceVersion()
		return o.GetAnnotations()[metav1.InitialEventsAnnotationKey] == "true", nil
	case watch.Deleted:
		delete(s.objects, cache.MetaObjectToName(o).String())
	default:
		s.add(o)
	}
	return false, nil
}

func (s *snapshot) add(o metav1.Object) {
	s.objects[cache.MetaObjectToName(o).String()] = object{uid: o.GetUID(), version: o.GetResourceVersion()}
}

// list reads in pages, of which the first one is a consistent read and the others are of
// the same version.
func (r Reader) list(ctx context.Context, c Cache) (snapshot, error) {
	s := snapshot{objects: map[string]object{}}
	pages := pager.New(func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
		list, err := r.of(c).List(ctx, o)
		if err != nil {
			return nil, err
		}
		s.version = list.ResourceVersion
		return list, nil
	})
	pages.FullListIfExpired = false
	err := pages.EachListItem(ctx, selecting(c, metav1.ListOptions{}), func(item runtime.Object) error {
		o, err := meta.Accessor(item)
		if err != nil {
			return err
		}
		s.add(o)
		return nil
	})
	return s, err
}
