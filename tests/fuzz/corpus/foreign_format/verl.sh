python3 -m verl.trainer.main_ppo actor_rollout_ref.model.path=a trainer.nnodes=2 --x 3
