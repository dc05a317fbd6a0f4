// The parsers under test, with a function for each: it feeds the input to the parser, and the
// result to the library's next step.
//
// A target returns normally for every input: bad input is a `parallel::error`, which `refused`
// catches. Any other exception, a failed `ensure`, a sanitizer's report or a hang is a finding.
#pragma once

#include <string_view>

namespace fuzz {

struct target {
  std::string_view name;
  void (*run)(std::string_view input);
};

void yaml(std::string_view input);
void config(std::string_view input);
void time(std::string_view input);
void hf_config(std::string_view input);
void tokenizer(std::string_view input);
void safetensors(std::string_view input);
void tensor_folder(std::string_view input);
void manifest(std::string_view input);
void mds_index(std::string_view input);
void mds_shard(std::string_view input);
void journal(std::string_view input);
void documents(std::string_view input);
void kernel_tuning(std::string_view input);
void pickle(std::string_view input);
void torch_file(std::string_view input);
void finetuning_rows(std::string_view input);
void finetuning_set(std::string_view input);
void icl_task(std::string_view input);
void chat_template(std::string_view input);

inline constexpr target targets[] = {
    {"yaml", yaml},
    {"config", config},
    {"time", time},
    {"hf_config", hf_config},
    {"tokenizer", tokenizer},
    {"safetensors", safetensors},
    {"manifest", manifest},
    {"tensor_folder", tensor_folder},
    {"mds_index", mds_index},
    {"mds_shard", mds_shard},
    {"journal", journal},
    {"documents", documents},
    {"kernel_tuning", kernel_tuning},
    {"pickle", pickle},
    {"torch_file", torch_file},
    {"finetuning_rows", finetuning_rows},
    {"finetuning_set", finetuning_set},
    {"icl_task", icl_task},
    {"chat_template", chat_template},
};

}  // namespace fuzz
