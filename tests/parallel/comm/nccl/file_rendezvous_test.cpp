#include <parallel/comm/nccl/file_rendezvous.hpp>

#include <doctest/doctest.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <string>
#include <vector>

#include <parallel/conformance/values.hpp>

namespace nccl_file_rendezvous_test {

using parallel::conformance::message_of;
using parallel::nccl::file_rendezvous;
using std::chrono::milliseconds;

struct temporary_folder {
  std::string path = (std::filesystem::temp_directory_path() / "rendezvous_XXXXXX").string();
  temporary_folder() { REQUIRE(::mkdtemp(path.data()) != nullptr); }
  ~temporary_folder() { std::filesystem::remove_all(path); }
  [[nodiscard]] std::filesystem::path file() const { return path + "/id"; }
};

TEST_CASE("file_rendezvous: all processes read what the first one writes") {
  temporary_folder const folder;
  std::string const id(128, '\n');
  std::vector<pid_t> children;
  for (int i = 0; i < 3; ++i) {
    pid_t const child = ::fork();
    if (child == 0) {
      bool const is_equal =
          file_rendezvous(folder.file(), "run 7").wait_for(128, milliseconds(5000)) == id;
      ::_exit(is_equal ? 0 : 1);
    }
    children.push_back(child);
  }
  {
    file_rendezvous first(folder.file(), "run 7");
    first.write(id);
    struct stat status {};
    REQUIRE(::stat(folder.file().c_str(), &status) == 0);
    CHECK((status.st_mode & 0777) == 0600);
    for (pid_t const child : children) {
      int exit_status = 0;
      ::waitpid(child, &exit_status, 0);
      CHECK(WEXITSTATUS(exit_status) == 0);
    }
  }
  CHECK(std::filesystem::is_empty(folder.path));
}

TEST_CASE("file_rendezvous: the file of an earlier run is not taken") {
  temporary_folder const folder;
  file_rendezvous old(folder.file(), "run 6");
  old.write("12345678");
  file_rendezvous const current(folder.file(), "run 7");
  auto const message =
      message_of([&] { static_cast<void>(current.wait_for(8, milliseconds(30))); });
  CHECK(message.find("(there is one of run run 6, which is left over) within 0.03 s") !=
        std::string::npos);
  file_rendezvous(folder.file(), "run 7")
      .write("87654321");  // replaces the file and removes it at once
  CHECK(message_of([&] {
          static_cast<void>(current.wait_for(8, milliseconds(10)));
        }).find("rank 0 has not written it within") != std::string::npos);
}

TEST_CASE("file_rendezvous: other sizes and missing folders are refused") {
  temporary_folder const folder;
  file_rendezvous first(folder.file(), "r");
  first.write("1234");
  CHECK(message_of([&] {
          static_cast<void>(first.wait_for(8, milliseconds(10)));
        }).find("has 4 bytes, expected 8") != std::string::npos);
  CHECK(message_of([] {
          file_rendezvous("/nowhere/id", "r").write("1");
        }).starts_with("/nowhere/id: cannot be written: No such file"));
}

}  // namespace nccl_file_rendezvous_test
