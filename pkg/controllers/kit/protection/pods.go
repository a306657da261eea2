package protection

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/kubernetes"
)

// pageSize is the page size of live lists of pods.
const pageSize = 500

// EachPod lists the pods of a namespace from the API server and calls visit for each of them. It
// returns the resource version of the list. If EachPod fails, the visited pods may be only some of
// them. It may call visit for pods that the selector excludes.
func EachPod(
	ctx context.Context, client kubernetes.Interface, namespace string, selector fields.Selector, visit func(*corev1.Pod),
) (version string, err error) {
	// All pages have the resource version of the first one.
	options := metav1.ListOptions{Limit: pageSize, FieldSelector: selector.String()}
	for {
		list, err := client.CoreV1().Pods(namespace).List(ctx, options)
		if err != nil {
			return "", err
		}
		for i := range list.Items {
			visit(&list.Items[i])
		}
		if options.Continue = list.Continue; options.Continue == "" {
			return list.ResourceVersion, nil
		}
	}
}
