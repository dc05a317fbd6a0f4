// A record that the disk does not take is lost alone.
#include <doctest/doctest.h>
#include <sys/resource.h>

#include <csignal>
#include <string>

#include <mpt/log/appended_file.hpp>
#include <parallel/support/files.hpp>

namespace appended_file_test {

/// How long files may become, for as long as it lives.
class file_limit {
 public:
  explicit file_limit(rlim_t bytes) : signal_(std::signal(SIGXFSZ, SIG_IGN)) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    ::rlimit const limit{bytes, before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  file_limit(file_limit const&) = delete;
  file_limit& operator=(file_limit const&) = delete;
  ~file_limit() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, signal_);
  }

 private:
  ::rlimit before_{};
  void (*signal_)(int);
};

TEST_CASE("what is appended is whole, or not there, and later records are") {
  test::temporary_folder const folder;
  std::string const a(100, 'a'), b(100, 'b'), c(100, 'c');
  mpt::appended_file file(folder / "records");
  file.add(a);
  {
    file_limit const limit(150);
    file.add(b);  // of which 50 bytes are written
    file.add(b);
  }
  CHECK(file.lost() == 2);
  file.add(c);
  CHECK(file.lost() == 2);
  CHECK(test::read_all(folder / "records") == a + c);
}

TEST_CASE("a second start appends to what is there, and none writes nothing") {
  test::temporary_folder const folder;
  for (char const* const text : {"one\n", "two\n"}) mpt::appended_file(folder / "f").add(text);
  CHECK(test::read_all(folder / "f") == "one\ntwo\n");
  mpt::appended_file none;
  none.add("x");
  CHECK(none.lost() == 0);
  CHECK(test::contains(test::message_of([&] { mpt::appended_file const f(folder.path()); }),
                       ": cannot be written: Is a directory"));
}

}  // namespace appended_file_test
