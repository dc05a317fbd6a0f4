// A record that the disk does not take is lost alone.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
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

TEST_CASE("a file that cannot be opened says for what it is, and its error keeps its kind") {
  test::temporary_folder const folder;
  auto const open = [](std::filesystem::path const& path) {
    static_cast<void>(mpt::open_for_appending(path, "metrics_file ", "; choose another"));
  };
  open(folder / "new/records");
  CHECK(std::filesystem::exists(folder / "new/records"));
  CHECK(test::message_of([&] { open(folder.path()); }) ==
        "metrics_file " + folder.path().native() +
            ": cannot be written: Is a directory; choose another");
  CHECK(test::contains(test::message_of([&] { open(folder / "new/records/below/it"); }),
                       "cannot create this folder: Not a directory; choose another"));
  ::rlimit before{};
  ::getrlimit(RLIMIT_NOFILE, &before);
  ::rlimit const none{0, before.rlim_max};
  ::setrlimit(RLIMIT_NOFILE, &none);
  CHECK_THROWS_AS(open(folder / "f"), parallel::limit_reached);
  ::setrlimit(RLIMIT_NOFILE, &before);
  // ENXIO, as of a device that is gone
  auto const socket = folder / "socket";
  ::sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::copy(socket.native().begin(), socket.native().end(), address.sun_path);
  parallel::descriptor const listener(::socket(AF_UNIX, SOCK_STREAM, 0));
  REQUIRE(::bind(listener.get(), reinterpret_cast<::sockaddr const*>(&address), sizeof address) ==
          0);
  CHECK_THROWS_AS(open(socket), parallel::storage_error);
}

TEST_CASE("a pipe that nobody reads holds nothing up; what another reads is written") {
  test::temporary_folder const folder;
  auto const pipe = folder / "pipe";
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  CHECK(test::message_of([&] { mpt::appended_file const file(pipe); }) ==
        pipe.native() + ": is a pipe that nobody reads");
  parallel::descriptor const reader(::open(pipe.c_str(), O_RDONLY | O_NONBLOCK));
  mpt::appended_file file(pipe);
  file.add("one\n");
  std::string read(4, ' ');
  CHECK(::read(reader.get(), read.data(), read.size()) == 4);
  CHECK(read == "one\n");
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
