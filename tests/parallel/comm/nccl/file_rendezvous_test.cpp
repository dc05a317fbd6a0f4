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

struct folder {
  std::string path = (std::filesystem::temp_directory_path() / "rendezvous_XXXXXX").string();
  folder() { REQUIRE(::mkdtemp(path.data()) != nullptr); }
  ~folder() { std::filesystem::remove_all(path); }
  [[nodiscard]] std::filesystem::path file() const { return path + "/id"; }
};

TEST_CASE("processes take what the first one gives") {
  folder const at;
  std::string const id(128, '\n');
  std::vector<pid_t> others;
  for (int i = 0; i < 3; ++i) {
    pid_t const one = ::fork();
    if (one == 0) {
      bool const same = file_rendezvous(at.file(), "run 7").wait_for(128, milliseconds(5000)) == id;
      ::_exit(same ? 0 : 1);
    }
    others.push_back(one);
  }
  {
    file_rendezvous first(at.file(), "run 7");
    first.write(id);
    struct stat about {};
    REQUIRE(::stat(at.file().c_str(), &about) == 0);
    CHECK((about.st_mode & 0777) == 0600);
    for (pid_t const one : others) {
      int status = 0;
      ::waitpid(one, &status, 0);
      CHECK(WEXITSTATUS(status) == 0);
    }
  }
  CHECK(std::filesystem::is_empty(at.path));
}

TEST_CASE("what an earlier run has left is no answer") {
  folder const at;
  file_rendezvous old(at.file(), "run 6");
  old.write("12345678");
  file_rendezvous const mine(at.file(), "run 7");
  auto const told = message_of([&] { static_cast<void>(mine.wait_for(8, milliseconds(30))); });
  CHECK(told.find("(there is one of run run 6, which is left over) within 0.03 s") !=
        std::string::npos);
  file_rendezvous(at.file(), "run 7").write("87654321");  // replaces it, and is gone at once
  CHECK(message_of([&] {
          static_cast<void>(mine.wait_for(8, milliseconds(10)));
        }).find("rank 0 has not written it within") != std::string::npos);
}

TEST_CASE("other sizes and folders that are not there are refused") {
  folder const at;
  file_rendezvous first(at.file(), "r");
  first.write("1234");
  CHECK(message_of([&] {
          static_cast<void>(first.wait_for(8, milliseconds(10)));
        }).find("has 4 bytes, expected 8") != std::string::npos);
  CHECK(message_of([] {
          file_rendezvous("/nowhere/id", "r").write("1");
        }).starts_with("/nowhere/id: cannot be written: No such file"));
}

}  // namespace nccl_file_rendezvous_test
