// Tests of appended_file on a full disk, a pipe, and files that cannot be opened.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <filesystem>
#include <string>
#include <thread>

#include <mpt/log/appended_file.hpp>
#include <parallel/support/files.hpp>
#include <support/file_size_limit.hpp>

namespace appended_file_test {

TEST_CASE("appended_file: a record is written whole or not at all, and later records are written") {
  test::temporary_folder const folder;
  std::string const a(100, 'a'), b(100, 'b'), c(100, 'c');
  mpt::appended_file file(folder / "records");
  file.add(a);
  {
    test::file_size_limit const limit(150);
    file.add(b);  // only 50 bytes are written
    file.add(b);
  }
  CHECK(file.lost() == 2);
  file.add(c);
  CHECK(file.lost() == 2);
  CHECK(test::read_all(folder / "records") == a + c);
}

TEST_CASE("appended_file: the reader of a pipe is waited for, and may leave") {
  auto const before = std::signal(SIGPIPE, SIG_IGN);
  test::temporary_folder const folder;
  auto const pipe = folder / "pipe";
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  parallel::descriptor reader(::open(pipe.c_str(), O_RDONLY | O_NONBLOCK));
  mpt::appended_file file(pipe);
  std::string const record(4096, 'r');
  std::size_t read_bytes = 0;
  {
    std::jthread const late([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(200));
      std::string bytes(1 << 20, ' ');
      for (int tries = 0; read_bytes < 100 * record.size() && tries < 1000; ++tries) {
        auto const count = ::read(reader.get(), bytes.data(), bytes.size());
        if (count > 0) read_bytes += static_cast<std::size_t>(count);
        if (count < 0) std::this_thread::sleep_for(std::chrono::milliseconds(10));
      }
    });
    for (int i = 0; i < 100; ++i) file.add(record);  // more than a pipe holds
  }
  CHECK(read_bytes == 100 * record.size());
  CHECK(file.lost() == 0);
  reader = parallel::descriptor();
  file.add(record);
  CHECK(file.lost() == 1);
  CHECK(file.loss_reason() == "its reader has left");
  static_cast<void>(std::signal(SIGPIPE, before));
}

TEST_CASE(
    "open_for_appending: the error names the purpose of the file and has the type of its cause") {
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
  ::rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  ::rlimit const none{0, limit.rlim_max};
  ::setrlimit(RLIMIT_NOFILE, &none);
  CHECK_THROWS_AS(open(folder / "f"), parallel::limit_reached);
  ::setrlimit(RLIMIT_NOFILE, &limit);
  // opening a socket gives ENXIO, as does a device that is gone
  auto const socket = folder / "socket";
  ::sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::copy(socket.native().begin(), socket.native().end(), address.sun_path);
  parallel::descriptor const listener(::socket(AF_UNIX, SOCK_STREAM, 0));
  REQUIRE(::bind(listener.get(), reinterpret_cast<::sockaddr const*>(&address), sizeof address) ==
          0);
  CHECK_THROWS_AS(open(socket), parallel::storage_error);
}

TEST_CASE("appended_file: a pipe without a reader is an error, and one with a reader is written") {
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

TEST_CASE("appended_file: a record after a torn line is a line of its own") {
  using namespace std::string_literals;
  struct {
    std::string content, with_record;
  } const cases[] = {{"", "new\n"},
                     {"old\n", "old\nnew\n"},
                     {"old\ntor", "old\ntor\nnew\n"},
                     {"old\n\0\0"s, "old\n\0\0\nnew\n"s}};
  for (auto const& [content, with_record] : cases) {
    test::temporary_folder const folder;
    test::write_all(folder / "lines", content);
    mpt::appended_file file(folder / "lines");
    file.end_last_line();
    file.add("new\n");
    CHECK(test::read_all(folder / "lines") == with_record);
  }
}

TEST_CASE(
    "appended_file: reopening a file appends, and a default-constructed appended_file writes "
    "nothing") {
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
