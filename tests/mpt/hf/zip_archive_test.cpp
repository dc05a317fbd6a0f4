#include <cstdint>
#include <string>

#include <doctest/doctest.h>

#include <mpt/hf/zip_archive.hpp>
#include <parallel/support/files.hpp>
#include <support/torch_zip.hpp>

namespace zip_archive_test {

using mpt::hf::zip_archive;

std::string read_range(zip_archive const& archive, std::string const& name, std::uint64_t begin,
                       std::size_t size) {
  std::string out(size, '\0');
  archive.read(*archive.find(name), begin, std::as_writable_bytes(std::span(out)));
  return out;
}

TEST_CASE("zip archive: members are found, and read in full or by ranges in any order") {
  test::temporary_folder const folder;
  std::string const large(100'000, 'x');
  test::write_zip(folder / "a.zip",
                  {{"m/one", "0123456789"}, {"m/two", "abc"}, {"m/large", large, true}});
  zip_archive const archive(folder / "a.zip");
  CHECK(archive.members().size() == 3);
  CHECK(archive.find("m/three") == nullptr);
  CHECK(read_range(archive, "m/one", 3, 4) == "3456");
  CHECK(read_range(archive, "m/two", 2, 1) == "c");
  CHECK(read_range(archive, "m/one", 0, 10) == "0123456789");
  CHECK(read_range(archive, "m/one", 8, 2) == "89");
  CHECK(read_range(archive, "m/one", 10, 0).empty());
  CHECK(archive.read_all(*archive.find("m/large"), 100'000) == large);
  CHECK(archive.read_all(*archive.find("m/two"), 3) == "abc");
  CHECK(read_range(archive, "m/one", 1, 2) == "12");

  CHECK(test::contains(test::message_of([&] { (void)read_range(archive, "m/one", 8, 3); }),
                       "cannot read 3 bytes from byte 8 of a member of 10 bytes"));
  CHECK(test::contains(test::message_of([&] { (void)read_range(archive, "m/large", 0, 3); }),
                       "a tensor in it is compressed or encrypted"));
  CHECK(test::contains(
      test::message_of([&] { (void)archive.read_all(*archive.find("m/large"), 99'999); }),
      "a member has 100000 bytes, but at most 99999 are supported for its kind"));
}

TEST_CASE("zip archive: files of another form, truncated and damaged files are refused") {
  test::temporary_folder const folder;
  auto const problem = [&] {
    return test::message_of([&] {
      zip_archive const archive(folder / "a");
      (void)archive.read_all(*archive.find("data"), 100);
    });
  };
  CHECK(test::contains(problem(), "/a: does not exist; check the path"));
  test::write_all(folder / "a", "");
  CHECK(test::contains(problem(), "/a: is not a zip file, or is cut short"));
  test::write_all(folder / "a", "not a zip");
  CHECK(test::contains(problem(), "/a: is not a zip file, or is cut short"));
  test::write_zip(folder / "a", {{"data", "0123456789"}});
  CHECK(problem().empty());
  auto const intact = test::read_all(folder / "a");
  for (std::size_t length = 0; length < intact.size(); ++length) {
    test::write_all(folder / "a", intact.substr(0, length));
    CHECK_FALSE(problem().empty());
  }
  auto damaged = intact;
  damaged.at(damaged.find("0123") + 2) = 'x';
  test::write_all(folder / "a", damaged);
  CHECK(test::contains(problem(), "a member is damaged"));
}

}  // namespace zip_archive_test
