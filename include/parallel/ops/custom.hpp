// custom: an operation that a layer defines itself as host code, with the views it reads and
// writes.
#pragma once

#include <utility>

#include <parallel/device/meta/memory_access.hpp>

namespace parallel::ops {

/// Marks an argument of `custom` that the task adds to.
using meta::updates;

/// custom(s, task, views...): enqueues task(), which reads the views of const elements among
/// `views`, writes the other views, and reads and writes those given as updates(view). On the meta
/// device nothing runs; the views are noted for the check of the model
/// (train/checks/model_check.hpp). This is for streams whose tasks are host code; a GPU needs a
/// kernel (docs/gpu.md). Pass every view that the task uses: the check cannot see the others.
/// Throws `error` if a view is bound to no memory.
inline constexpr auto custom = []<class Stream, class Task, class... Views>(Stream& s, Task&& task,
                                                                            Views const&... views) {
  if constexpr (requires { s.touch(views...); }) {
    s.touch(views...);
  } else {
    meta::require_bound(views...);
    s.enqueue(std::forward<Task>(task));
  }
};

}  // namespace parallel::ops
