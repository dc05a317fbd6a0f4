// A library to preload into a program: system calls fail as on a disk that is away for a moment.
// FAILING_CALLS="CALL PART ERRNO SKIP COUNT;...": of the calls named CALL whose path contains PART,
// the first SKIP succeed, and the next COUNT fail with ERRNO.
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace {

struct rule {
  std::string call, part;
  int code = 0, skip = 0, count = 0;
};

/// The error code of a call on `path`; 0: none.
int fault(std::string_view call, std::string_view path) {
  static std::mutex mutex;
  static auto rules = [] {
    std::vector<rule> out;
    char const* const text = std::getenv("FAILING_CALLS");
    std::istringstream rule_texts(text == nullptr ? "" : text);
    for (std::string rule_text; std::getline(rule_texts, rule_text, ';');) {
      std::istringstream words(rule_text);
      auto& r = out.emplace_back();
      words >> r.call >> r.part >> r.code >> r.skip >> r.count;
    }
    return out;
  }();
  std::scoped_lock const lock(mutex);
  for (auto& r : rules) {
    if (r.call != call || path.find(r.part) == std::string_view::npos) continue;
    if (r.skip-- > 0) continue;
    if (r.count-- > 0) return r.code;
  }
  return 0;
}

std::string path_of(int file) {
  char path[4096];
  auto const got = ::readlink(("/proc/self/fd/" + std::to_string(file)).c_str(), path, sizeof path);
  return got > 0 ? std::string(path, static_cast<std::size_t>(got)) : std::string();
}

template <class F>
F* next(char const* name) {
  return reinterpret_cast<F*>(::dlsym(RTLD_NEXT, name));
}

/// Returns real(), or -1 with errno set where a rule makes the call fail.
template <class Real>
auto call_unless_failing(std::string_view call, std::string_view path, Real const& real)
    -> decltype(real()) {
  if (int const code = fault(call, path); code != 0) {
    errno = code;
    return -1;
  }
  return real();
}

}  // namespace

// NOLINTBEGIN: the C library's own declarations
extern "C" {

int open(char const* path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  mode_t const mode = (flags & O_CREAT) != 0 ? va_arg(rest, mode_t) : 0;
  va_end(rest);
  bool const reads = (flags & O_ACCMODE) == O_RDONLY;
  return call_unless_failing(reads ? "open" : "create", path, [&] {
    return next<int(char const*, int, ...)>("open")(path, flags, mode);
  });
}
int lstat(char const* path, struct stat* out) {
  return call_unless_failing(
      "lstat", path, [&] { return next<int(char const*, struct stat*)>("lstat")(path, out); });
}
ssize_t pread(int file, void* to, size_t bytes, off_t offset) {
  return call_unless_failing("pread", path_of(file), [&] {
    return next<ssize_t(int, void*, size_t, off_t)>("pread")(file, to, bytes, offset);
  });
}
ssize_t write(int file, void const* from, size_t bytes) {
  return call_unless_failing("write", path_of(file), [&] {
    return next<ssize_t(int, void const*, size_t)>("write")(file, from, bytes);
  });
}
int symlink(char const* to, char const* path) {
  return call_unless_failing(
      "symlink", path, [&] { return next<int(char const*, char const*)>("symlink")(to, path); });
}
int link(char const* to, char const* path) {
  return call_unless_failing("link", path,
                             [&] { return next<int(char const*, char const*)>("link")(to, path); });
}
int flock(int file, int operation) {
  return call_unless_failing("flock", path_of(file),
                             [&] { return next<int(int, int)>("flock")(file, operation); });
}
int fsync(int file) {
  return call_unless_failing("fsync", path_of(file), [&] { return next<int(int)>("fsync")(file); });
}
int rename(char const* from, char const* to) {
  return call_unless_failing(
      "rename", to, [&] { return next<int(char const*, char const*)>("rename")(from, to); });
}
int renameat2(int a, char const* from, int b, char const* to, unsigned flags) {
  return call_unless_failing("renameat2", to, [&] {
    return next<int(int, char const*, int, char const*, unsigned)>("renameat2")(a, from, b, to,
                                                                                flags);
  });
}
int unlinkat(int folder, char const* path, int flags) {
  return call_unless_failing("unlinkat", path, [&] {
    return next<int(int, char const*, int)>("unlinkat")(folder, path, flags);
  });
}
}
// NOLINTEND
