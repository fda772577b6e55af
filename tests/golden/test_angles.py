"""The angle features of the 36 views from each base view."""

import numpy as np
import torch

from vlnbert.world.world import VIEWS, angle_feature, view_elevation, view_heading


def test_angle_features_of_all_views(numbers):
    """Headings are relative to the base view's, elevations absolute."""
    wanted = np.load(numbers / "angle_feature_all_views.npz")["angle_feature"]
    views = torch.arange(VIEWS)
    heading = view_heading(views) - view_heading(views)[:, None]  # [base, view]
    found = angle_feature(heading, view_elevation(views).expand_as(heading), width=4)
    assert found.shape == wanted.shape
    np.testing.assert_allclose(found, wanted, atol=1e-6)
