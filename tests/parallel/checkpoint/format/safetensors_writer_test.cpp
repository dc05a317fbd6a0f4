#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <vector>

#include <doctest/doctest.h>

#include <parallel/checkpoint/format/safetensors.hpp>
#include <parallel/checkpoint/format/safetensors_writer.hpp>
#include <parallel/support/files.hpp>

namespace safetensors_writer_test {
namespace pc = parallel::checkpoint;
using type = pc::element_type;

template <class T>
std::span<std::byte const> bytes_of(std::vector<T> const& values) {
  return std::as_bytes(std::span(values));
}

TEST_CASE(
    "safetensors writer: tensors written in pieces in any order are read back, wide elements "
    "first") {
  test::temporary_folder const folder;
  std::vector<std::uint8_t> const flags = {1, 0, 1};
  std::vector<float> const matrix = {1, 2, 3, 4, 5, 6};
  {
    pc::safetensors_writer writer(folder / "f",
                                  {{"flags", type::boolean, {3}},
                                   {"scalar", type::f64, {}},
                                   {"matrix", type::f32, {2, 3}},
                                   {"none", type::i64, {0, 5}}},
                                  {.metadata = {{"format", "pt"}}});
    writer.append("matrix", bytes_of(matrix).first(8));
    writer.append("flags", bytes_of(flags));
    writer.append("matrix", bytes_of(matrix).subspan(8));
    writer.append("scalar", bytes_of(std::vector<double>{0.5}));
    CHECK_FALSE(std::filesystem::exists(folder / "f"));
    writer.finish();
  }
  pc::safetensors_file const file(folder / "f");
  CHECK(file.data_begin() % 8 == 0);
  CHECK(file.metadata().at("format") == "pt");
  CHECK(file.tensors().back().name == "flags");
  for (auto const& entry : file.tensors()) CHECK(entry.begin % pc::size_of(entry.type) == 0);
  std::vector<float> read(6);
  file.read("matrix", 0, std::span(read));
  CHECK(read == matrix);
  CHECK(std::distance(std::filesystem::directory_iterator(folder.path()), {}) == 1);
}

TEST_CASE(
    "safetensors writer: an incomplete, overfull or unknown tensor is refused and leaves no file") {
  test::temporary_folder const folder;
  std::vector<float> const three = {1, 2, 3};
  {
    pc::safetensors_writer writer(folder / "f", {{"a", type::f32, {2}}});
    CHECK(test::contains(test::message_of([&] { writer.append("b", bytes_of(three)); }),
                         "/f: tensor \"b\" was not declared"));
    CHECK(test::contains(test::message_of([&] { writer.append("a", bytes_of(three)); }),
                         "has 8 bytes; 0 are written and 12 more were given"));
    CHECK(test::contains(test::message_of([&] { writer.append("a", bytes_of(three).first(3)); }),
                         "3 bytes are not whole elements of F32"));
    writer.append("a", bytes_of(three).first(4));
    CHECK(test::contains(test::message_of([&] { writer.finish(); }),
                         "\"a\" is incomplete: 4 of 8 bytes"));
  }
  auto const declare = [&](std::vector<pc::tensor_declaration> const& tensors) {
    return test::message_of([&] { pc::safetensors_writer(folder / "f", tensors); });
  };
  CHECK(test::contains(declare({{"a", type::f32, {}}, {"a", type::u8, {}}}), "declared twice"));
  CHECK(test::contains(declare({{"__metadata__", type::f32, {}}}), "cannot be written"));
  CHECK(test::contains(declare({{"\xff", type::f32, {}}}), "cannot be written as JSON"));
  CHECK(test::contains(declare({{"a", type::f64, {parallel::index{1} << 62}}}), "more elements"));
  CHECK(std::filesystem::is_empty(folder.path()));
}

TEST_CASE("safetensors writer: an existing file stays until the new one is complete") {
  test::temporary_folder const folder;
  test::write_all(folder / "f", "old");
  { pc::safetensors_writer const writer(folder / "f", {{"a", type::u8, {2}}}); }
  CHECK(test::read_all(folder / "f") == "old");
  CHECK(test::contains(test::message_of([&] {
                         pc::safetensors_writer(folder / "missing/f", {{"a", type::u8, {2}}});
                       }),
                       "/missing/f.tmp: cannot create: No such file or directory"));
}

TEST_CASE(
    "safetensors writer: a full disk is an error that names the file, and the old file stays") {
  test::temporary_folder const folder;
  test::write_all(folder / "f", "old");
  auto const child = ::fork();
  if (child == 0) {  // a limit on file sizes fails the same way as a full disk
    std::signal(SIGXFSZ, SIG_IGN);
    rlimit const limit{4096, 4096};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    auto const message = test::message_of([&] {
      pc::safetensors_writer writer(folder / "f", {{"a", type::u8, {100'000}}});
      writer.append("a", bytes_of(std::vector<std::uint8_t>(100'000)));
      writer.finish();
    });
    ::_exit(test::contains(message, "/f.tmp: cannot write at byte 4096: File too large") ? 0 : 1);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  CHECK(test::read_all(folder / "f") == "old");
  CHECK_FALSE(std::filesystem::exists(folder / "f.tmp"));
}

}  // namespace safetensors_writer_test
