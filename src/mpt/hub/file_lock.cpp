#include <mpt/hub/file_lock.hpp>

#include <fcntl.h>

#include <utility>

#include <parallel/core/file_lock.hpp>

namespace mpt::hub {

file_lock::file_lock(std::filesystem::path const& file, std::function<void()> const& on_wait) {
  namespace files = parallel::files;
  files::make_folders(files::parent_folder(file));
  for (bool has_waited = false;;) {
    handle_ = parallel::descriptor(::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0664));
    if (handle_.get() < 0) files::failure(file, "cannot create this lock");
    if (files::try_lock(handle_.get()) == files::lock_result::busy) {
      if (on_wait && !std::exchange(has_waited, true)) on_wait();
      static_cast<void>(files::wait_for_lock(handle_.get()));
    }
    if (files::is_named(handle_.get(), file)) return;
  }
}

}  // namespace mpt::hub
