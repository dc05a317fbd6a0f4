// model.safetensors.index.json over two small files.
#include <parallel/checkpoint/format/tensor_folder.hpp>

#include "../support.hpp"
#include "../targets.hpp"

namespace {

// One fp32 tensor of two elements.
std::string file_of(std::string const& tensor) {
  namespace pc = parallel::checkpoint;
  auto const header = "{\"" + tensor + R"(":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";
  return pc::pack_safetensors_header(header, 0, "fuzz") + "12345678";
}

}  // namespace

void fuzz::tensor_folder(std::string_view input) {
  static scratch const folder;
  static auto const first = folder.file("a.safetensors", file_of("wte"));
  static auto const second = folder.file("b.safetensors", file_of("wpe"));
  static_cast<void>(folder.file("model.safetensors.index.json", input));
  refused([&] {
    parallel::checkpoint::tensor_folder const tensors(folder.path());
    for (auto const& name : tensors.names()) {
      std::vector<float> values(2);
      tensors.read(name, 0, std::span(values));
    }
  });
}
