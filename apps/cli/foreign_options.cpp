#include <cli/foreign_options.hpp>

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>

namespace apps {

namespace {

struct foreign_option {
  std::string_view programs;  ///< " prepare generate "; "": all
  std::string_view name;
  std::string_view advice;
};

constexpr std::string_view ranks_of_launch =
    "give -n RANKS, those of this machine, and on several machines --nodes N --node I --rendezvous "
    "FOLDER";

// LLM Foundry's scripts have underscores in their options, and its command line has hyphens; both
// spellings are found.
constexpr foreign_option options[] = {
    {"prepare", "--path", "give the files: prepare ... FILES"},
    {"prepare", "--data_files", "give the files: prepare ... FILES"},
    {"prepare", "--input_folder", "give its files: prepare ... FOLDER/*"},
    {"prepare", "--output_folder", "give --out_root FOLDER"},
    {"prepare", "--local", "give --out_root FOLDER"},
    {"prepare", "--processes", "give --num_workers N, threads"},
    {"prepare", "--use_tokenizer_eos", "give --eos_text TEXT, the tokenizer's eos_token"},
    {"prepare", "--tokenizer_kwargs", "leave it out: the files of the tokenizer's folder say it all"},
    {"prepare", "--reprocess", "give a new --out_root, or the old one removed"},
    {"prepare", "--skip_preprocessing", "leave --preprocessor out"},
    {"prepare", "--encoder_decoder", "leave it out: an MPT is a decoder"},
    {"convert", "--composer_path", "give the checkpoint first: convert FROM TO"},
    {"convert", "--hf_output_path", "give the folder second: convert FROM TO"},
    {"convert", "--output_precision", "give --dtype float32, bfloat16 or float16"},
    {"convert", "--local_checkpoint_save_location",
     "leave it out: the checkpoint is read where it is"},
    {"convert", "--hf_repo_for_upload", "leave it out: upload the folder with huggingface-cli"},
    {"convert", "--test_uploaded_model", "leave it out: generate reads the folder"},
    {"generate", "-n", "give the model's folder first, without a name"},
    {"generate", "-p", "give --prompt TEXT, or --prompts FILE with a prompt a line"},
    {"generate evaluate", "--name_or_path", "give the model's folder first, without a name"},
    {"generate evaluate", "--model_name_or_path", "give the model's folder first, without a name"},
    {"generate", "--max_batch_size", "give --batch N"},
    {"generate", "--prompt_delimiter", "give --prompts FILE with a prompt a line"},
    {"generate", "--stop_tokens", "give --stop TEXT, once for each"},
    {"generate", "--do_sample", "give --temperature 1 --top_k 50; without them the likeliest"},
    {"generate", "--use_cache", "leave it out: keys and values are always kept"},
    {"generate", "--max_seq_len", "leave it out: the model's own is meant"},
    {"generate", "--eos_token_id", "leave it out: the model's own is meant"},
    {"generate", "--pad_token_id", "leave it out: prompts are not padded"},
    {"generate", "--warmup", "leave it out: there is nothing to warm up"},
    {"generate evaluate", "--model_dtype", "give --precision fp32 or bf16"},
    {"generate evaluate", "--autocast_dtype", "give --precision fp32 or bf16"},
    {"generate evaluate", "--dtype", "give --precision fp32 or bf16"},
    {"generate evaluate", "--device_map", "give --device cuda, with --tensor N over several"},
    {"generate", "--user_msg_fmt", "give the tokenizer's chat_template"},
    {"generate", "--assistant_msg_fmt", "give the tokenizer's chat_template"},
    {"generate evaluate", "--attn_impl", "leave it out: a device has one attention"},
    {"", "--revision", "give the folder of that revision, which fetch ORG/NAME --revision prints"},
    {"", "--use_auth_token", "leave it out: nothing is downloaded"},
    {"", "--trust_remote_code", "leave it out: no code of a model or data set is run"},
    {"", "--logging_level", "leave it out: there is one short form"},
    {"pretrain finetune evaluate", "--yaml_path", "give the YAML file first, without a name"},
    {"pretrain finetune evaluate", "--config", "give the YAML file first, without a name"},
    {"evaluate", "--tasks", "give --icl_tasks TASKS.yaml"},
    {"launch", "--nproc", ranks_of_launch},
    {"launch", "--nproc_per_node", ranks_of_launch},
    {"launch", "--nnodes", ranks_of_launch},
    {"launch", "--world_size", ranks_of_launch},
    {"launch", "--base_rank", ranks_of_launch},
    {"launch", "--node_rank", ranks_of_launch},
    {"launch", "--master_addr", ranks_of_launch},
    {"launch", "--master_port", ranks_of_launch},
    {"launch", "--rdzv_endpoint", ranks_of_launch},
    {"launch", "--standalone", ranks_of_launch},
    {"launch", "--stdout", "give --logs FOLDER"},
    {"launch", "--stderr", "give --logs FOLDER"},
    {"launch", "--max_restarts", "give --restarts N"},
};

/// Whether `word` is one of the words of `list`, or `list` is empty.
bool holds(std::string_view list, std::string_view word) {
  for (std::size_t begin = 0; begin < list.size();) {
    auto const end = std::min(list.find(' ', begin), list.size());
    if (list.substr(begin, end - begin) == word) return true;
    begin = end + 1;
  }
  return list.empty();
}

}  // namespace

std::string_view foreign_option_advice(std::string_view program, std::string_view option) {
  std::string name(option.substr(0, option.find('=')));
  if (name.size() > 2) std::replace(name.begin() + 2, name.end(), '-', '_');
  for (auto const& known : options)
    if (known.name == name && holds(known.programs, program)) return known.advice;
  return {};
}

}  // namespace apps
