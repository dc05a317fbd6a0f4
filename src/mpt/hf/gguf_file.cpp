#include <mpt/hf/gguf_file.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <system_error>
#include <type_traits>
#include <utility>

#include <parallel/core/error.hpp>

namespace mpt::hf {
namespace {

namespace pc = parallel::checkpoint;

static_assert(std::endian::native == std::endian::little, "GGUF files are little-endian");

constexpr std::string_view gguf_magic = "GGUF";
constexpr std::uint32_t gguf_version = 3;
constexpr std::size_t longest_tensor_name = 63;

/// The numbers that the format gives to the types of values.
enum class value_type : std::uint32_t {
  u32 = 4,
  i32 = 5,
  f32 = 6,
  boolean = 7,
  text = 8,
  array = 9
};

/// The number that ggml gives to a type of elements.
[[nodiscard]] std::uint32_t ggml_type(gguf_tensor const& tensor) {
  switch (tensor.type) {
    case pc::element_type::f32: return 0;
    case pc::element_type::f16: return 1;
    case pc::element_type::bf16: return 30;
    default: break;
  }
  parallel::fail("tensor \"", tensor.name, "\": a GGUF file holds F32, F16 or BF16 here, not ",
                 pc::to_string(tensor.type));
}

[[nodiscard]] constexpr std::uint64_t aligned(std::uint64_t bytes) {
  return (bytes + gguf_alignment - 1) / gguf_alignment * gguf_alignment;
}

/// The part of a file before the elements, in the making.
class preamble {
 public:
  template <class T>
  void number(T value) {
    auto const bytes = std::bit_cast<std::array<char, sizeof(T)>>(value);
    bytes_.append(bytes.data(), bytes.size());
  }
  void type(value_type type) { number(static_cast<std::uint32_t>(type)); }
  void text(std::string_view text) {
    number(static_cast<std::uint64_t>(text.size()));
    bytes_.append(text);
  }
  void raw(std::string_view bytes) { bytes_.append(bytes); }

  void field(gguf_field const& field) {
    text(field.name);
    std::visit([&](auto const& content) { value(content); }, field.value);
  }

  /// The bytes, padded to where the elements begin.
  [[nodiscard]] std::string const& padded() {
    bytes_.resize(static_cast<std::size_t>(aligned(bytes_.size())), '\0');
    return bytes_;
  }

 private:
  void value(std::uint32_t content) { type(value_type::u32), number(content); }
  void value(float content) { type(value_type::f32), number(content); }
  void value(bool content) { type(value_type::boolean), number(static_cast<char>(content)); }
  void value(std::string const& content) { type(value_type::text), text(content); }
  void value(std::vector<std::string> const& content) {
    array(value_type::text, content.size());
    for (auto const& element : content) text(element);
  }
  template <class T>
  void value(std::vector<T> const& content) {
    array(std::is_same_v<T, float> ? value_type::f32 : value_type::i32, content.size());
    for (T const element : content) number(element);
  }
  void array(value_type element, std::size_t size) {
    type(value_type::array);
    type(element);
    number(static_cast<std::uint64_t>(size));
  }

  std::string bytes_;
};

void require_distinct_names(std::vector<gguf_field> const& fields, std::string const& file) {
  std::vector<std::string_view> names;
  for (auto const& field : fields) names.emplace_back(field.name);
  std::ranges::sort(names);
  auto const twice = std::ranges::adjacent_find(names);
  parallel::require(twice == names.end(), file, ": the field \"",
                    twice == names.end() ? std::string_view() : *twice, "\" is declared twice");
}

}  // namespace

bool is_gguf_file(std::filesystem::path const& path) {
  std::error_code unreadable;
  if (!std::filesystem::is_regular_file(path, unreadable)) return false;
  parallel::input_file const file(path);
  std::array<char, gguf_magic.size()> begin{};
  return file.size() >= begin.size() &&
         file.read_some(0, std::as_writable_bytes(std::span(begin))) == begin.size() &&
         std::string_view(begin.data(), begin.size()) == gguf_magic;
}

gguf_writer::gguf_writer(std::filesystem::path path, std::vector<gguf_field> const& fields,
                         std::vector<gguf_tensor> tensors, parallel::action_hook on_action)
    : path_(std::move(path)),
      tensors_(std::move(tensors)),
      on_action_(std::move(on_action)),
      file_((require_distinct_names(fields, path_.native()), lay_out(), open())) {
  try {
    preamble text;
    text.raw(gguf_magic);
    text.number(gguf_version);
    text.number(static_cast<std::uint64_t>(tensors_.size()));
    text.number(static_cast<std::uint64_t>(fields.size()));
    for (auto const& field : fields) text.field(field);
    for (auto const& tensor : tensors_) {
      text.text(tensor.name);
      text.number(static_cast<std::uint32_t>(tensor.extents.size()));
      for (std::size_t i = tensor.extents.size(); i > 0; --i)
        text.number(static_cast<std::uint64_t>(tensor.extents[i - 1]));
      text.number(ggml_type(tensor));
      text.number(extents_.at(tensor.name).offset);
    }
    auto const& bytes = text.padded();
    data_begin_ = bytes.size();
    file_.write(0, std::as_bytes(std::span(bytes)));
    // The last tensor is padded as the others are.
    constexpr std::byte zero{};
    auto const end = aligned(data_bytes_);
    if (end > data_bytes_) file_.write(data_begin_ + end - 1, std::span(&zero, 1));
  } catch (...) {
    static_cast<void>(::unlink(file_.path().c_str()));
    throw;
  }
}

gguf_writer::~gguf_writer() {
  if (!is_finished_) static_cast<void>(::unlink(file_.path().c_str()));
}

void gguf_writer::lay_out() {
  for (auto const& tensor : tensors_) {
    static_cast<void>(ggml_type(tensor));
    auto const location = parallel::concat(path_.native(), ": tensor \"", tensor.name, "\"");
    parallel::require(tensor.name.size() <= longest_tensor_name, location, ": its name has over ",
                      longest_tensor_name, " bytes, which llama.cpp does not read");
    parallel::require(!tensor.extents.empty() && tensor.extents.size() <= 4, location,
                      ": a GGUF tensor has one to four dimensions, not ", tensor.extents.size());
    auto const width = pc::size_of(tensor.type);
    auto const offset = aligned(data_bytes_);
    auto const bytes =
        static_cast<std::uint64_t>(pc::checked_volume(tensor.extents, width, location)) * width;
    parallel::require(extents_.emplace(tensor.name, extent{offset, bytes, 0}).second, location,
                      " is declared twice");
    data_bytes_ = offset + bytes;
    parallel::require(data_bytes_ <= INT64_MAX / 2, location,
                      ": the file would exceed 62 bits of bytes");
  }
}

parallel::output_file gguf_writer::open() const {
  parallel::files::announce(on_action_, "create file");
  auto temporary = path_;
  temporary += ".tmp";
  return parallel::output_file(temporary, parallel::output_file::existing::replace);
}

void gguf_writer::append(std::string const& tensor, std::span<std::byte const> bytes) {
  auto const found = extents_.find(tensor);
  parallel::require(found != extents_.end(), path_.native(), ": tensor \"", tensor,
                    "\" was not declared");
  auto& declared = found->second;
  parallel::require(bytes.size() <= declared.bytes - declared.written, path_.native(),
                    ": tensor \"", tensor, "\" has ", declared.bytes, " bytes; ", declared.written,
                    " are written and ", bytes.size(), " more were given");
  parallel::files::announce(on_action_, "write tensor");
  file_.write(data_begin_ + declared.offset + declared.written, bytes);
  declared.written += bytes.size();
}

void gguf_writer::finish() {
  for (auto const& [name, declared] : extents_)
    parallel::require(declared.written == declared.bytes, path_.native(), ": tensor \"", name,
                      "\" is incomplete: ", declared.written, " of ", declared.bytes,
                      " bytes were given");
  parallel::files::announce(on_action_, "flush file");
  file_.sync();
  parallel::files::announce(on_action_, "rename file");
  parallel::files::rename(file_.path(), path_);
  is_finished_ = true;
  parallel::files::announce(on_action_, "flush folder");
  parallel::files::sync_folder(parallel::files::parent_folder(path_));
}

}  // namespace mpt::hf
