// A safetensors file: its header, and every tensor both as it is and converted.
#include <algorithm>

#include <parallel/checkpoint/format/safetensors.hpp>

#include "../support.hpp"
#include "../targets.hpp"

void fuzz::safetensors(std::string_view input) {
  namespace pc = parallel::checkpoint;
  static scratch const folder;
  auto const path = folder.file("f.safetensors", input);
  refused([&] {
    pc::safetensors_file const file(path);
    for (auto const& tensor : file.tensors()) {
      ensure(tensor.end <= input.size(), "a tensor lies in its file");
      refused([&] {
        std::vector<std::byte> bytes(tensor.end - tensor.begin);
        file.read_bytes(tensor.name, 0, tensor.size(), bytes);
      });
      refused([&] {
        std::vector<float> values(
            static_cast<std::size_t>(std::min<parallel::index>(tensor.size(), 1 << 16)));
        file.read(tensor.name, 0, std::span(values));
      });
    }
    auto const printed = pc::format_safetensors_header({file.tensors(), {}}, "printed");
    auto const data = file.tensors().empty() ? 0 : file.tensors().back().end;
    ensure(pc::parse_safetensors_header(printed, data, "printed").tensors == file.tensors(),
           "a header survives being printed and parsed");
  });
}
