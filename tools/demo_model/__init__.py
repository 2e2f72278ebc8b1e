"""Training of the demo model: see tools/train_demo_model.py."""
