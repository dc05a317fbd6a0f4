// pretrain: trains a model, an MPT or one of another family, from one of LLM Foundry's YAML files.
//
//   pretrain mpt-125m.yaml key.sub=value …          on threads (ranks=N), or
//   mpirun -n N pretrain mpt-125m.yaml …            on MPI ranks
#include <trainer/train.hpp>

int main(int argc, char** argv) {
  return apps::train_program(
      argc, argv, "Pretrain a model from a YAML in LLM Foundry's form",
      {"pretrain apps/configs/mpt/125m.yaml variables.data_local=my-copy-c4 save_folder=ckpt "
       "ranks=8",
       "pretrain run.yaml dry_run=true device_memory=80GB ranks=64   # what it would do",
       "launch -n 8 pretrain run.yaml                                # ranks as processes"});
}
