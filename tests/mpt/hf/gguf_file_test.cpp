#include <cstring>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <mpt/hf/gguf_file.hpp>
#include <parallel/support/files.hpp>

namespace gguf_file_test {
namespace hf = mpt::hf;
using parallel::checkpoint::element_type;

/// Reads a GGUF file front to back, by the format's description alone.
class file_reader {
 public:
  explicit file_reader(std::string bytes) : bytes_(std::move(bytes)) {}

  template <class T>
  T number() {
    T value;
    REQUIRE(position_ + sizeof(T) <= bytes_.size());
    std::memcpy(&value, bytes_.data() + position_, sizeof(T));
    position_ += sizeof(T);
    return value;
  }
  std::string text() {
    auto const size = static_cast<std::size_t>(number<std::uint64_t>());
    REQUIRE(position_ + size <= bytes_.size());
    position_ += size;
    return bytes_.substr(position_ - size, size);
  }
  void align() { position_ = (position_ + 31) / 32 * 32; }
  [[nodiscard]] std::size_t position() const { return position_; }
  [[nodiscard]] std::size_t size() const { return bytes_.size(); }
  [[nodiscard]] std::string_view piece(std::size_t begin, std::size_t size) const {
    return std::string_view(bytes_).substr(begin, size);
  }

 private:
  std::string bytes_;
  std::size_t position_ = 0;
};

template <class T>
std::string bytes_of(std::vector<T> const& values) {
  return {reinterpret_cast<char const*>(values.data()), values.size() * sizeof(T)};
}

std::vector<float> const vector_values = {1, -2, 3.5F};
std::vector<std::uint16_t> const matrix_bits = {1, 2, 3, 4, 5, 6};  // of two rows

std::vector<hf::gguf_tensor> declarations() {
  return {{"blk.0.attn_norm.weight", element_type::f32, {3}},
          {"token_embd.weight", element_type::bf16, {2, 3}}};
}

void write_model(std::filesystem::path const& path) {
  hf::gguf_writer writer(
      path,
      {{"general.architecture", std::string("mpt")},
       {"mpt.block_count", std::uint32_t{7}},
       {"mpt.attention.max_alibi_bias", 8.0F},
       {"tokenizer.ggml.add_bos_token", true},
       {"tokenizer.ggml.tokens", std::vector<std::string>{"a", "", "\xC4\xA0the"}},
       {"tokenizer.ggml.token_type", std::vector<std::int32_t>{1, -5, 3}},
       {"tokenizer.ggml.scores", std::vector<float>{0, -1.5F}}},
      declarations());
  std::span const matrix(matrix_bits);
  writer.append("token_embd.weight", std::as_bytes(matrix.first(4)));
  writer.append("blk.0.attn_norm.weight", std::as_bytes(std::span(vector_values)));
  writer.append("token_embd.weight", std::as_bytes(matrix.subspan(4)));
  CHECK_FALSE(std::filesystem::exists(path));
  writer.finish();
}

TEST_CASE("gguf file: header, fields, tensors and their elements are where the format says") {
  test::temporary_folder const folder;
  write_model(folder / "m.gguf");
  file_reader file(test::read_all(folder / "m.gguf"));
  CHECK(file.number<std::uint32_t>() == 0x46554747);  // "GGUF"
  CHECK(file.number<std::uint32_t>() == 3);
  CHECK(file.number<std::uint64_t>() == 2);
  CHECK(file.number<std::uint64_t>() == 7);
  auto const begins_field = [&](char const* name, std::uint32_t type) {
    CHECK(file.text() == name);
    CHECK(file.number<std::uint32_t>() == type);
  };
  auto const begins_array = [&](std::uint32_t type, std::uint64_t size) {
    CHECK(file.number<std::uint32_t>() == type);
    CHECK(file.number<std::uint64_t>() == size);
  };
  begins_field("general.architecture", 8);
  CHECK(file.text() == "mpt");
  begins_field("mpt.block_count", 4);
  CHECK(file.number<std::uint32_t>() == 7);
  begins_field("mpt.attention.max_alibi_bias", 6);
  CHECK(file.number<float>() == 8);
  begins_field("tokenizer.ggml.add_bos_token", 7);
  CHECK(file.number<char>() == 1);
  begins_field("tokenizer.ggml.tokens", 9);
  begins_array(8, 3);
  for (char const* const token : {"a", "", "\xC4\xA0the"}) CHECK(file.text() == token);
  begins_field("tokenizer.ggml.token_type", 9);
  begins_array(5, 3);
  for (std::int32_t const type : {1, -5, 3}) CHECK(file.number<std::int32_t>() == type);
  begins_field("tokenizer.ggml.scores", 9);
  begins_array(6, 2);
  for (float const score : {0.0F, -1.5F}) CHECK(file.number<float>() == score);
  auto const has_tensor = [&](char const* name, std::vector<std::uint64_t> const& extents,
                              std::uint32_t type, std::uint64_t offset) {
    CHECK(file.text() == name);
    CHECK(file.number<std::uint32_t>() == extents.size());
    for (auto const extent : extents) CHECK(file.number<std::uint64_t>() == extent);
    CHECK(file.number<std::uint32_t>() == type);
    CHECK(file.number<std::uint64_t>() == offset);
  };
  has_tensor("blk.0.attn_norm.weight", {3}, 0, 0);
  has_tensor("token_embd.weight", {3, 2}, 30, 32);  // the fastest extent first
  file.align();
  auto const data = file.position();
  CHECK(file.piece(data, 12) == bytes_of(vector_values));
  CHECK(file.piece(data + 12, 20) == std::string(20, '\0'));
  CHECK(file.piece(data + 32, 12) == bytes_of(matrix_bits));
  CHECK(file.size() == data + 64);
  CHECK(hf::is_gguf_file(folder / "m.gguf"));
}

TEST_CASE("gguf file: an unfinished file leaves nothing behind") {
  test::temporary_folder const folder;
  {
    hf::gguf_writer writer(folder / "m.gguf", {}, declarations());
    writer.append("blk.0.attn_norm.weight", std::as_bytes(std::span(vector_values)));
    CHECK(test::contains(test::message_of([&] { writer.finish(); }),
                         "tensor \"token_embd.weight\" is incomplete: 0 of 12 bytes were given"));
  }
  CHECK(std::filesystem::is_empty(folder.path()));
  CHECK_FALSE(hf::is_gguf_file(folder / "m.gguf"));
  CHECK_FALSE(hf::is_gguf_file(folder.path()));
  test::write_all(folder / "short", "GG");
  CHECK_FALSE(hf::is_gguf_file(folder / "short"));
}

TEST_CASE("gguf file: wrong declarations and elements are refused") {
  test::temporary_folder const folder;
  auto const problem = [&](std::vector<hf::gguf_field> const& fields,
                           std::vector<hf::gguf_tensor> const& tensors) {
    return test::message_of([&] { hf::gguf_writer(folder / "m.gguf", fields, tensors); });
  };
  CHECK(test::contains(problem({{"a", true}, {"a", 1.0F}}, {}), "\"a\" is declared twice"));
  CHECK(test::contains(problem({}, {{"t", element_type::f32, {1}}, {"t", element_type::f32, {1}}}),
                       "tensor \"t\" is declared twice"));
  CHECK(test::contains(problem({}, {{"t", element_type::i64, {1}}}), "holds F32, F16 or BF16"));
  CHECK(test::contains(problem({}, {{"t", element_type::f32, {}}}), "one to four dimensions"));
  CHECK(test::contains(problem({}, {{std::string(64, 't'), element_type::f32, {1}}}),
                       "its name has over 63 bytes"));
  hf::gguf_writer writer(folder / "m.gguf", {}, declarations());
  auto const bytes = std::as_bytes(std::span(matrix_bits));
  CHECK(test::contains(test::message_of([&] { writer.append("other", bytes); }),
                       "tensor \"other\" was not declared"));
  writer.append("token_embd.weight", bytes);
  CHECK(test::contains(test::message_of([&] { writer.append("token_embd.weight", bytes); }),
                       "12 are written and 12 more were given"));
}

}  // namespace gguf_file_test
